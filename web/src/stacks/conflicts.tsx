import { Button, Group, MultiSelect, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { useApi } from "../api/api.js";
import { DocumentLink } from "../documents/document_link.js";
import { formatCount, formatNumber } from "../format.js";
import { EmptyState, QueryView } from "../states/states.js";

const KEYS_MAX = 4;
/** Number of documents of a value that are shown. */
const DOCUMENTS_SHOWN = 3;

/** The conflicts among documents: rows that agree in the key columns and differ in another one. */
export function Conflicts({ stack }: { readonly stack: v1.Stack }) {
  const { stackId, columns } = stack;
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [keys, setKeys] = useState<readonly string[]>([]);
  return (
    <Stack gap="sm">
      <form onSubmit={(event) => { event.preventDefault(); setKeys(chosen); }}>
        <Group gap="xs" align="flex-end">
          <MultiSelect size="xs" label="Key columns" description="Rows with the same values in these columns are about the same subject" data={columns.map(({ name }) => name)} value={[...chosen]} onChange={setChosen} maxValues={KEYS_MAX} miw={260} searchable />
          <Button size="xs" type="submit" disabled={chosen.length === 0}>Find conflicts</Button>
        </Group>
      </form>
      {keys.length > 0 && <ConflictList key={keys.join("\n")} stackId={stackId} keyColumns={keys} />}
    </Stack>
  );
}

function ConflictList({ stackId, keyColumns }: { readonly stackId: string; readonly keyColumns: readonly string[] }) {
  const api = useApi();
  const conflicts = useQuery({
    queryKey: ["stack conflicts", stackId, keyColumns],
    queryFn: ({ signal }) => api.service(v1.StackService).getStackConflicts({ stackId, keyColumns: [...keyColumns] }, { signal }),
    staleTime: 0,
  });
  return (
    <QueryView query={conflicts} empty={(data) => (data.conflicts.length === 0 ? <EmptyState title="No conflicts" text="Rows with the same key have the same values." /> : undefined)}>
      {(data) => (
        <>
          <Text size="sm" c="dimmed" role="status">{`${formatCount(data.totalCount, "conflict")}${data.conflicts.length < data.totalCount ? `, of which the first ${formatNumber(data.conflicts.length)} are listed` : ""}`}</Text>
          <Table.ScrollContainer minWidth={520}>
            <Table aria-label="Conflicts">
              <Table.Thead><Table.Tr>{keyColumns.map((name) => <Table.Th key={name} className="foreign">{name}</Table.Th>)}<Table.Th>Column</Table.Th><Table.Th>Values</Table.Th></Table.Tr></Table.Thead>
              <Table.Tbody>
                {data.conflicts.map(({ key, column, values }, index) => (
                  <Table.Tr key={index}>
                    {key.map((value, at) => <Table.Td key={at} className="foreign">{value}</Table.Td>)}
                    <Table.Td className="foreign">{column}</Table.Td>
                    <Table.Td>{values.map((value, at) => <ConflictValue key={at} value={value} />)}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </>
      )}
    </QueryView>
  );
}

function ConflictValue({ value: { value, documentIds, documentCount } }: { readonly value: v1.StackConflictValue }) {
  const shown = documentIds.slice(0, DOCUMENTS_SHOWN);
  return (
    <div>
      <Text span size="sm" fw={500} className="foreign">{value}</Text>
      {shown.map((documentId) => <span key={documentId}>{" "}<DocumentLink documentId={documentId} /></span>)}
      {documentCount > shown.length && <Text span size="xs" c="dimmed">{` and ${formatNumber(documentCount - shown.length)} more`}</Text>}
    </div>
  );
}
