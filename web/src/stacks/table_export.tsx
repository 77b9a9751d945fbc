import { Button, Menu } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { bytesOf } from "../document/queries.js";
import { ErrorNotice } from "../errors/error_notice.js";
import { CSV, save, XLSX } from "../extraction/queries.js";

/** The formats of a table, with the endings of their files. */
const FORMATS = [
  CSV,
  XLSX,
  { format: v1.ExportFormat.JSON_LINES, label: "JSON lines", ending: "jsonl", type: "application/x-ndjson" },
] as const;

type Choice = (typeof FORMATS)[number] & { readonly includeDetails: boolean };

const CHOICES: readonly Choice[] = [false, true].flatMap((includeDetails) => FORMATS.map((format) => ({ ...format, includeDetails })));

/** Exports the table of a stack as a file. */
export function TableExport({ stackId, name }: { readonly stackId: string; readonly name: string }) {
  const api = useApi();
  const file = useMutation({
    mutationFn: async ({ format, ending, type, includeDetails }: Choice) =>
      save(await bytesOf(api.service(v1.StackService).exportTable({ stackId, format, includeDetails }), type), `${fileName(name)}.${ending}`),
  });
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target><Button size="xs" variant="default" loading={file.isPending}>Export</Button></Menu.Target>
        <Menu.Dropdown>
          {CHOICES.map((choice) => <Menu.Item key={`${choice.label} ${choice.includeDetails}`} onClick={() => file.mutate(choice)}>{`${choice.label}${choice.includeDetails ? " with states and citations" : ""}`}</Menu.Item>)}
        </Menu.Dropdown>
      </Menu>
      {file.error !== null && <ErrorNotice error={file.error} onClose={file.reset} />}
    </>
  );
}

/** Returns a name that file systems accept. */
export function fileName(name: string): string {
  return name.replace(/[\p{C}\\/:*?"<>|]+/gu, " ").trim().slice(0, 100) || "table";
}
