// The loaded rows of a table, and their changes. No I/O.
import type { v1 } from "folio-client";
import { STATES } from "./cells.js";

/** A page of rows. */
export interface RowPage {
  readonly rows: readonly v1.StackRow[];
  readonly nextPageToken: string;
  readonly totalSize: number;
}

/** The rows that are shown: all, those with a cell that waits, those with a cell in a state, or that of a document. */
export interface RowFilter {
  readonly show: string;
  /** Empty: rows of all documents. */
  readonly documentId: string;
}

export const SHOW_ALL = "all";
export const SHOW_WAITING = "waiting";

/** Returns the filter of an address. Invalid parameters are ignored, because a user may have typed the address. */
export function rowFilterOf(parameters: URLSearchParams): RowFilter {
  const show = parameters.get("show") ?? "";
  const documentId = parameters.get("document") ?? "";
  const isKnown = show === SHOW_WAITING || STATES.some(({ name }) => name === show);
  return { show: isKnown ? show : SHOW_ALL, documentId: /^[a-z0-9_]{1,64}$/.test(documentId) ? documentId : "" };
}

/** Returns the `filter` of `ListStackRows`. */
export function serverFilter({ show, documentId }: RowFilter): string {
  const conditions = [documentId === "" ? "" : `document:${documentId}`, show === SHOW_ALL ? "" : show === SHOW_WAITING ? "waiting:true" : `cell:${show}`];
  return conditions.filter((condition) => condition !== "").join(" ");
}

/** Changes of rows by their ids. Null: the row was removed. */
export type RowChanges = ReadonlyMap<string, v1.StackRow | null>;

/**
 * Returns the pages after changes. A new row belongs to the end of the list, which is in the order of creation: it is added if the end is
 * loaded and no filter is set. A changed row stays where it is, also if it no longer matches the filter, so that no row moves under the cursor.
 */
export function withChanges(pages: readonly RowPage[], changes: RowChanges, isFiltered: boolean): RowPage[] {
  const known = new Set(pages.flatMap(({ rows }) => rows.map(({ stackRowId }) => stackRowId)));
  const added = [...changes].flatMap(([id, row]) => (row === null || known.has(id) ? [] : [row]));
  const removed = [...changes].filter(([id, row]) => row === null && known.has(id)).length;
  const isEndLoaded = pages.at(-1)?.nextPageToken === "";
  return pages.map(({ rows, nextPageToken, totalSize }, index) => {
    const isTouched = rows.some(({ stackRowId }) => changes.has(stackRowId));
    const kept = isTouched ? rows.flatMap((row) => (changes.has(row.stackRowId) ? (changes.get(row.stackRowId) ?? []) : row)) : rows;
    const isEnd = isEndLoaded && !isFiltered && index === pages.length - 1;
    return {
      rows: isEnd && added.length > 0 ? [...kept, ...added] : kept,
      nextPageToken,
      totalSize: totalSize - removed + (isFiltered ? 0 : added.length),
    };
  });
}

/** Returns the number of rows for people: the server counts exactly up to 1,024. */
export function countText(pages: readonly RowPage[]): string {
  const loaded = pages.reduce((sum, { rows }) => sum + rows.length, 0);
  const isWhole = pages.at(-1)?.nextPageToken === "";
  const total = pages[0]?.totalSize ?? 0;
  return isWhole ? `${loaded} ${loaded === 1 ? "row" : "rows"}` : `${loaded} of ${total > COUNTED_MAX ? "more than " : ""}${Math.min(total, COUNTED_MAX)} rows loaded`;
}

const COUNTED_MAX = 1_024;
