// The progress of a job. No I/O.
import type { v1 } from "folio-client";

/** Returns the part of a job that is done, between 0 and 1. */
export function progressOf({ doneItems, failedItems, totalItems }: Pick<v1.Job, "doneItems" | "failedItems" | "totalItems">): number {
  return totalItems <= 0 ? 0 : Math.min((doneItems + failedItems) / totalItems, 1);
}
