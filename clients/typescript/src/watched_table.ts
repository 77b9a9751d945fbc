// The rows of a watched table across all its streams. No I/O.
import type * as v1 from "./gen/v1.js";

/**
 * Completes the changes of a table. A stream sends the stack, and then only rows that change. So the rows are listed when a stream starts,
 * and after each change of the stack: they then have other columns, or documents that are no longer in the stack.
 */
export class WatchedTable {
  #stack = "";
  /** Versions of the known rows by id. Empty: the row is sent again by the next list. */
  readonly #rows = new Map<string, string>();
  #unlisted = new Set<string>();
  #isListed = false;

  startStream(): void {
    this.#isListed = false;
  }

  /** Applies a change. Returns true if the rows must be listed after it. */
  apply({ change }: v1.WatchTableResponse): boolean {
    if (change.case === "stack") {
      const hasChanged = this.#stack !== change.value.etag;
      if (this.#isListed && !hasChanged) return false;
      if (hasChanged) {
        for (const id of this.#rows.keys()) this.#rows.set(id, "");
        this.#stack = change.value.etag;
      }
      this.#isListed = true;
      this.#unlisted = new Set(this.#rows.keys());
      return true;
    }
    if (change.case === "row") {
      this.add(change.value);
    } else if (change.case === "removedStackRowId") {
      this.#rows.delete(change.value);
      this.#unlisted.delete(change.value);
    }
    return false;
  }

  /** Applies a listed row. Returns true if the row is new or was changed. */
  add(row: v1.StackRow): boolean {
    this.#unlisted.delete(row.stackRowId);
    const isNew = this.#rows.get(row.stackRowId) !== row.etag;
    this.#rows.set(row.stackRowId, row.etag);
    return isNew;
  }

  /** Ends the list. Returns the ids of known rows that are no longer in the table. */
  endList(): string[] {
    const missing = [...this.#unlisted].sort();
    this.#unlisted.clear();
    for (const id of missing) this.#rows.delete(id);
    return missing;
  }
}
