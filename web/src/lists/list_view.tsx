import { Group, Stack, Table, TextInput, Title, VisuallyHidden } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { keepPreviousData, useInfiniteQuery, type QueryKey } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { EmptyState, MoreButton, QueryView } from "../states/states.js";

const SEARCH_DELAY_MS = 250;
const SEARCH_MAX = 200;

/** A page of a list of the server. */
interface ListPage<T> {
  readonly items: readonly T[];
  readonly nextPageToken: string;
}

export interface Column<T> {
  /** Empty: a column of actions. */
  readonly label: string;
  readonly cell: (item: T) => ReactNode;
}

interface ListViewProps<T> {
  readonly title: string;
  readonly queryKey: QueryKey;
  readonly load: (pageToken: string, signal: AbortSignal) => Promise<ListPage<T>>;
  readonly columns: readonly Column<T>[];
  readonly keyOf: (item: T) => string;
  readonly emptyText: string;
  /** Searches by name. Undefined: the list has no search. */
  readonly onSearch?: (text: string) => void;
  /** Filters and actions. */
  readonly children?: ReactNode;
  readonly refetchInterval?: number;
}

/** A list of the server as a table, with its pages and states. */
export function ListView<T>({ title, queryKey, load, columns, keyOf, emptyText, onSearch, children, refetchInterval }: ListViewProps<T>) {
  const list = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => load(pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    placeholderData: keepPreviousData,
    refetchInterval: refetchInterval ?? false,
  });
  const search = useDebouncedCallback((text: string) => onSearch?.(text), SEARCH_DELAY_MS);
  return (
    <Stack gap="sm">
      <Group justify="space-between" align="flex-end">
        <Title order={1} size="h3">{title}</Title>
        <Group gap="xs">
          {onSearch !== undefined && <TextInput type="search" size="xs" aria-label="Search by name" placeholder="Search by name" maxLength={SEARCH_MAX} onChange={(event) => search(event.currentTarget.value)} />}
          {children}
        </Group>
      </Group>
      <QueryView query={list} empty={({ pages }) => (pages.every(({ items, nextPageToken }) => items.length === 0 && nextPageToken === "") ? <EmptyState title="Nothing here" text={emptyText} /> : undefined)}>
        {({ pages }) => (
          <>
            <Table.ScrollContainer minWidth={520}>
              <Table aria-label={title} highlightOnHover verticalSpacing="xs">
                <Table.Thead><Table.Tr>{columns.map(({ label }) => <Table.Th key={label}>{label || <VisuallyHidden>Actions</VisuallyHidden>}</Table.Th>)}</Table.Tr></Table.Thead>
                <Table.Tbody>
                  {pages.flatMap(({ items }) => items).map((item) => (
                    <Table.Tr key={keyOf(item)}>{columns.map(({ label, cell }) => <Table.Td key={label} className="foreign">{cell(item)}</Table.Td>)}</Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
            {list.hasNextPage && <MoreButton onClick={() => void list.fetchNextPage()} loading={list.isFetchingNextPage} />}
          </>
        )}
      </QueryView>
    </Stack>
  );
}
