import { Anchor, MultiSelect, Table, Text } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useState } from "react";
import { Link } from "wouter";
import { useApi } from "../api/api.js";
import { documentKey } from "../document/queries.js";
import { each } from "../documents/each.js";
import { dataOf, type Json } from "../extraction/fields.js";
import { extractionKey } from "../extraction/queries.js";
import { EmptyState, MoreButton, QueryView } from "../states/states.js";
import { cellOf, columnsOf, evidencePath, extractionIdOf, fieldsOf, isDocument, SHOWN_FIRST } from "./grid.js";

const PAGE = 25;
const REFRESH_MS = 5_000;
/** Duration for which an extraction is not read again, in milliseconds. */
const FRESH_MS = 60_000;

interface Row {
  readonly item: v1.JobItem;
  /** The name of the document. Undefined: the item has none, or it was deleted. */
  readonly name: string | undefined;
  /** The extracted data. Undefined: none, or it was deleted. */
  readonly result: Json | undefined;
}

/** The results of the items of a job. `isOpen`: true while the job may get further results. */
export function JobResults({ jobId, isOpen }: { readonly jobId: string; readonly isOpen: boolean }) {
  const api = useApi();
  const queries = useQueryClient();
  const rows = useInfiniteQuery({
    // The end of the job reads the results once more.
    queryKey: ["job items", jobId, isOpen],
    queryFn: async ({ pageParam, signal }) => {
      const { items, nextPageToken } = await api.service(v1.JobService).listJobItems({ jobId, pageSize: PAGE, pageToken: pageParam }, { signal });
      const names = new Map<string, string>();
      await each(items.filter(({ subject }) => isDocument(subject)), async ({ subject: documentId }) => {
        const document = await queries.fetchQuery({
          queryKey: documentKey(documentId),
          queryFn: async () => (await api.service(v1.DocumentService).getDocument({ documentId }, { signal })).document ?? null,
          staleTime: FRESH_MS,
        });
        if (document !== null) names.set(documentId, document.name);
      });
      const results = new Map<number, Json | undefined>();
      await each(items.filter(({ resultJson }) => extractionIdOf(resultJson) !== ""), async ({ number, resultJson }) => {
        const extractionId = extractionIdOf(resultJson);
        const extraction = await queries.fetchQuery({
          queryKey: extractionKey(extractionId),
          queryFn: async () => (await api.service(v1.ExtractionService).getExtraction({ extractionId }, { signal })).extraction ?? null,
          staleTime: FRESH_MS,
        });
        if (extraction !== null) results.set(number, dataOf(extraction));
      });
      return { rows: items.map((item): Row => ({ item, name: names.get(item.subject), result: results.get(item.number) })), nextPageToken };
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    placeholderData: keepPreviousData,
    refetchInterval: isOpen ? REFRESH_MS : false,
  });
  return (
    <QueryView query={rows} empty={({ pages }) => (pages.every(({ rows }) => rows.length === 0) ? <EmptyState title="No items" text="The items appear when the job has read the documents." /> : undefined)}>
      {({ pages }) => (
        <>
          <ResultGrid rows={pages.flatMap(({ rows }) => rows)} />
          {rows.hasNextPage && <MoreButton onClick={() => void rows.fetchNextPage()} loading={rows.isFetchingNextPage} />}
        </>
      )}
    </QueryView>
  );
}

function ResultGrid({ rows }: { readonly rows: readonly Row[] }) {
  const [chosen, setChosen] = useState<readonly string[]>();
  const fields = fieldsOf(rows.map(({ result }) => result));
  const columns = columnsOf(fields, chosen);
  return (
    <>
      {fields.length > SHOWN_FIRST && (
        <MultiSelect size="xs" label="Columns" description={`The results have ${fields.length} fields.`} data={fields} value={columns} onChange={setChosen} searchable clearable />
      )}
      <Table.ScrollContainer minWidth={520}>
        <Table aria-label="Results" verticalSpacing={4}>
          <Table.Thead><Table.Tr><Table.Th>Number</Table.Th><Table.Th>Document</Table.Th><Table.Th>State</Table.Th>{columns.map((name) => <Table.Th key={name} className="foreign">{name}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>
            {rows.map(({ item: { number, subject, state, error, resultJson }, name, result }) => (
              <Table.Tr key={number}>
                <Table.Td>{number}</Table.Td>
                <Table.Td className="foreign">{isDocument(subject) ? <Anchor component={Link} href={evidencePath(subject, resultJson)} size="sm"><bdi>{name ?? subject}</bdi></Anchor> : subject}</Table.Td>
                <Table.Td>{(v1.JobItemState[state] ?? "").toLowerCase()}{error !== undefined && <Text size="xs" c="red" className="foreign">{error.message}</Text>}</Table.Td>
                {columns.map((field) => {
                  const text = cellOf(result, field);
                  const isLinked = text !== "" && isDocument(subject);
                  return <Table.Td key={field} className="foreign">{isLinked ? <Anchor component={Link} href={evidencePath(subject, resultJson, field)} size="sm" c="inherit">{text}</Anchor> : text}</Table.Td>;
                })}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </>
  );
}
