// The queries and changes of stacks and their tables.
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient, type InfiniteData, type QueryClient } from "@tanstack/react-query";
import { FolioError, v1 } from "folio-client";
import { useRef } from "react";
import { useApi, useStream } from "../api/api.js";
import { parsed } from "../extraction/fields.js";
import { member } from "../agent/steps.js";
import { serverFilter, withChanges, type RowChanges, type RowFilter, type RowPage } from "./rows.js";

const PAGE = 100;
const JOBS_MAX = 100;
/** Kind of the jobs that fill rows. */
const FILL_KIND = "stack_fill";
/** Delay between two reads of a job that fills rows, and between two searches for one, in milliseconds. */
const JOB_MS = 2_000;
const NO_JOB_MS = 10_000;
/** Delay before a broken stream is opened again, and before changes are shown, in milliseconds. */
const REJOIN_MS = 2_000;
const BATCH_MS = 200;

export const STACKS_KEY = ["stacks"] as const;
export const stackKey = (stackId: string) => ["stack", stackId] as const;
const rowsKey = (stackId: string) => ["stack rows", stackId] as const;
export const jobKey = (stackId: string) => ["stack job", stackId] as const;

/** Returns a stack. Null: it does not exist. */
export function useStack(stackId: string) {
  const api = useApi();
  return useQuery({
    queryKey: stackKey(stackId),
    queryFn: async ({ signal }) => (await api.service(v1.StackService).getStack({ stackId }, { signal })).stack ?? null,
  });
}

/** Returns the pages of the rows that match a filter, the oldest first. */
export function useRows(stackId: string, rowFilter: RowFilter) {
  const api = useApi();
  const filter = serverFilter(rowFilter);
  return useInfiniteQuery({
    queryKey: [...rowsKey(stackId), filter],
    queryFn: async ({ pageParam, signal }): Promise<RowPage> => {
      const { rows, nextPageToken, totalSize } = await api.service(v1.StackService).listStackRows({ stackId, filter, pageSize: PAGE, pageToken: pageParam, orderBy: "create_time" }, { signal });
      return { rows, nextPageToken, totalSize };
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    placeholderData: keepPreviousData,
  });
}

type Rows = InfiniteData<RowPage, string>;

/** Shows changed rows in all lists of a table. */
function showChanges(queries: QueryClient, stackId: string, changes: RowChanges): void {
  for (const [key] of queries.getQueriesData<Rows>({ queryKey: rowsKey(stackId) })) {
    const isFiltered = key.at(-1) !== "";
    queries.setQueryData<Rows>(key, (data) => data && { ...data, pages: withChanges(data.pages, changes, isFiltered) });
  }
}

/** Follows the changes of a table while a slot for a stream is free. */
export function useLiveTable(stackId: string): void {
  const api = useApi();
  const queries = useQueryClient();
  useStream(`table ${stackId}`, async (signal) => {
    const changes = new Map<string, v1.StackRow | null>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (changes.size > 0) showChanges(queries, stackId, new Map(changes));
      changes.clear();
    };
    const collect = (id: string, row: v1.StackRow | null) => {
      changes.set(id, row);
      timer ??= setTimeout(flush, BATCH_MS);
    };
    try {
      while (!signal.aborted) {
        let isFirst = true;
        try {
          for await (const { change } of api.service(v1.StackService).watchTable({ stackId }, { signal })) {
            if (change.case === "row") collect(change.value.stackRowId, change.value);
            else if (change.case === "removedStackRowId") collect(change.value, null);
            else if (change.case === "stack") {
              const current = change.value;
              const known = queries.getQueryData<v1.Stack | null>(stackKey(stackId));
              // The stream omits the list of documents.
              if (known?.etag !== current.etag) void queries.invalidateQueries({ queryKey: stackKey(stackId) });
              // Changes before the start of a stream, and those of another revision of the columns, are read again.
              if (isFirst || known?.etag !== current.etag) await readAgain(queries, stackId);
              isFirst = false;
            }
          }
          // The stack was deleted.
          if (!signal.aborted) void queries.invalidateQueries({ queryKey: stackKey(stackId) });
          return;
        } catch (error) {
          // The query reports what the server refuses; a lost stream leaves its last rows until it is open again.
          if (!(error instanceof FolioError) || !error.isInterruption) return void queries.invalidateQueries({ queryKey: stackKey(stackId) });
        }
        await pause(REJOIN_MS, signal);
      }
    } finally {
      flush();
    }
  });
}

/** Reads the rows again. A read that is in progress may have started before a change, and is cancelled. */
async function readAgain(queries: QueryClient, stackId: string): Promise<void> {
  await queries.cancelQueries({ queryKey: rowsKey(stackId) });
  void queries.invalidateQueries({ queryKey: rowsKey(stackId) });
}

/** Waits, at most until the signal is aborted. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** A change of a row: the value of a cell, or a decision about cells. */
export type CellChange =
  | { readonly column: string; readonly valueJson: string }
  /** Empty: all columns with a value that waits. */
  | { readonly columns: readonly string[]; readonly decision: v1.FieldDecision };

/** A change of a row that the visitor saw. */
export interface RowChange {
  readonly row: Pick<v1.StackRow, "stackRowId" | "documentId" | "etag">;
  readonly change: CellChange;
}

/**
 * Returns the change of a row. It is based on the version that the visitor saw, or on the version after the visitor's own changes of it.
 * Changes are sent one after another, so that several keys can be pressed quickly.
 */
export function useCellChange(stackId: string) {
  const api = useApi();
  const queries = useQueryClient();
  // The version that an own change made of a version.
  const own = useRef(new Map<string, string>());
  return useMutation({
    scope: { id: `cells ${stackId}` },
    mutationFn: async ({ row: { stackRowId, documentId, etag: seen }, change }: RowChange) => {
      const key = (etag: string) => `${stackRowId} ${etag}`;
      let etag = seen;
      for (let next = own.current.get(key(etag)); next !== undefined; next = own.current.get(key(etag))) etag = next;
      const row = await send({ stackId, documentId, etag }, change);
      if (row !== undefined && row.etag !== etag) own.current.set(key(etag), row.etag);
      return row;
    },
    onSuccess: (row) => row !== undefined && showChanges(queries, stackId, new Map([[row.stackRowId, row]])),
  });

  async function send(target: { stackId: string; documentId: string; etag: string }, change: CellChange): Promise<v1.StackRow | undefined> {
    if ("valueJson" in change) return (await api.service(v1.StackService).updateStackCell({ ...target, ...change })).row;
    return (await api.service(v1.StackService).reviewStackCells({ ...target, columns: [...change.columns], decision: change.decision })).row;
  }
}
/** Reads the stack and its rows again, after a change that was based on an older version. */
export function useReload(stackId: string): () => void {
  const queries = useQueryClient();
  return () => {
    void queries.invalidateQueries({ queryKey: stackKey(stackId) });
    void queries.invalidateQueries({ queryKey: rowsKey(stackId) });
  };
}

/** Returns a change of a stack, whose result is shown at once. */
export function useStackChange<V>(stackId: string, change: (variables: V) => Promise<{ readonly stack?: v1.Stack | undefined }>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async ({ stack }) => {
      if (stack !== undefined && stackId !== "") queries.setQueryData(stackKey(stackId), stack);
      void queries.invalidateQueries({ queryKey: rowsKey(stackId) });
      await queries.invalidateQueries({ queryKey: STACKS_KEY });
    },
  });
}

/** Returns true if a job has not ended. */
export function isOpenJob({ state }: Pick<v1.Job, "state">): boolean {
  const { QUEUED, RUNNING, WAITING, PAUSED } = v1.JobState;
  return [QUEUED, RUNNING, WAITING, PAUSED].includes(state);
}

/** Returns true if a job fills the rows of a stack. */
export function fills({ inputJson }: Pick<v1.Job, "inputJson">, stackId: string): boolean {
  return member(parsed(inputJson), "stack") === stackId;
}

/** Returns the open job that fills the rows, or the last one that this view has shown. Null: there is none. */
export function useFillJob(stackId: string) {
  const api = useApi();
  const queries = useQueryClient();
  return useQuery({
    queryKey: jobKey(stackId),
    queryFn: async ({ signal }) => {
      const last = queries.getQueryData<v1.Job | null>(jobKey(stackId)) ?? null;
      const open = last !== null && isOpenJob(last) ? last : (await openJob());
      const jobId = (open ?? last)?.jobId;
      // Lists do not contain the budget.
      return jobId === undefined ? null : ((await api.service(v1.JobService).getJob({ jobId }, { signal })).job ?? null);

      async function openJob(): Promise<v1.Job | undefined> {
        const { jobs } = await api.service(v1.JobService).listJobs({ filter: `open:true kind:${FILL_KIND}`, pageSize: JOBS_MAX }, { signal });
        return jobs.find((job) => fills(job, stackId));
      }
    },
    refetchInterval: ({ state }) => (state.data !== undefined && state.data !== null && isOpenJob(state.data) ? JOB_MS : NO_JOB_MS),
  });
}
