import { Button, FileButton, Menu, Modal, Stack, Table, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useRef, useState } from "react";
import { useApi } from "../api/api.js";
import { bytesOf } from "../document/queries.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { save } from "../extraction/queries.js";
import { fileProblem, formatOfFile, importSentence, textOfFile } from "./entries.js";

const FORMATS = [
  { format: v1.DictionaryFormat.CSV, label: "CSV", ending: "csv", type: "text/csv" },
  { format: v1.DictionaryFormat.JSON_LINES, label: "JSON lines", ending: "jsonl", type: "application/jsonl" },
] as const;
/** Maximum number of failed rows that are shown. */
const FAILED_MAX = 100;

interface DictionaryFilesProps {
  /** The conditions of the exported entries. */
  readonly filter: string;
  readonly canWrite: boolean;
  readonly onImported: () => Promise<unknown>;
}

/** Exports the shown entries as a file, and imports entries from one. */
export function DictionaryFiles({ filter, canWrite, onImported }: DictionaryFilesProps) {
  const api = useApi();
  const [problem, setProblem] = useState<string>();
  const exported = useMutation({
    mutationFn: async ({ format, ending, type }: (typeof FORMATS)[number]) =>
      save(await bytesOf(api.service(v1.DictionaryService).exportDictionary({ filter, format }), type), `dictionary.${ending}`),
  });
  const imported = useMutation({
    mutationFn: (request: { readonly format: v1.DictionaryFormat; readonly content: string }) => api.service(v1.DictionaryService).importDictionary(request),
    // Rows are written one by one, also if the request fails later.
    onSettled: onImported,
  });
  const reset = useRef<() => void>(null);
  const onFile = async (file: File | null) => {
    if (file === null) return;
    const tooLarge = fileProblem(file);
    const content = tooLarge === undefined ? textOfFile(new Uint8Array(await file.arrayBuffer())) : undefined;
    setProblem(tooLarge ?? (content === undefined ? "The file is not a text in UTF-8." : undefined));
    if (content !== undefined) imported.mutate({ format: formatOfFile(file.name), content });
  };
  const close = () => {
    reset.current?.();
    setProblem(undefined);
    imported.reset();
    exported.reset();
  };
  const error = imported.error ?? exported.error;
  const isOpen = problem !== undefined || error !== null || imported.data !== undefined;
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target><Button size="xs" variant="default" loading={exported.isPending}>Export</Button></Menu.Target>
        <Menu.Dropdown>
          {FORMATS.map((choice) => <Menu.Item key={choice.label} onClick={() => exported.mutate(choice)}>{choice.label}</Menu.Item>)}
        </Menu.Dropdown>
      </Menu>
      {canWrite && (
        <FileButton resetRef={reset} onChange={(file) => void onFile(file)} accept=".csv,.jsonl,.ndjson,.json,.txt" inputProps={{ "aria-label": "File with entries" }}>
          {(props) => <Button {...props} size="xs" variant="default" loading={imported.isPending}>Import</Button>}
        </FileButton>
      )}
      <Modal opened={isOpen} onClose={close} title={exported.error === null ? "Import" : "Export"} size="lg">
        <Stack gap="sm">
          {problem !== undefined && <Text size="sm" c="red" role="alert">{problem}</Text>}
          {error !== null && <ErrorNotice error={error} />}
          {imported.data !== undefined && <ImportResult result={imported.data} />}
        </Stack>
      </Modal>
    </>
  );
}

function ImportResult({ result }: { readonly result: v1.ImportDictionaryResponse }) {
  const failed = result.rows.filter(({ errorReason }) => errorReason !== "");
  return (
    <>
      <Text size="sm" role="status">{importSentence(result)}</Text>
      {failed.length > 0 && (
        <Table aria-label="Rows that were not written">
          <Table.Thead><Table.Tr><Table.Th>Row</Table.Th><Table.Th>Term</Table.Th><Table.Th>Reason</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {failed.slice(0, FAILED_MAX).map(({ row, term, errorMessage }) => (
              <Table.Tr key={row}><Table.Td>{row}</Table.Td><Table.Td className="foreign">{term}</Table.Td><Table.Td className="foreign">{errorMessage}</Table.Td></Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      )}
      {failed.length > FAILED_MAX && <Text size="xs" c="dimmed">{`${failed.length - FAILED_MAX} further rows were not written.`}</Text>}
    </>
  );
}
