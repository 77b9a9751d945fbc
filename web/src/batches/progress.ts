// The progress of a job. No I/O.
import type { v1 } from "folio-client";

/** Returns the part of a job that is done, between 0 and 1. */
export function progressOf({ doneItems, failedItems, totalItems }: Pick<v1.Job, "doneItems" | "failedItems" | "totalItems">): number {
  return totalItems <= 0 ? 0 : Math.min((doneItems + failedItems) / totalItems, 1);
}

/** Maximum number of reasons of failed items that are shown. */
const REASONS_MAX = 3;

/** Returns the different errors of the failed items of a job, at most three. */
export function failureReasons({ items }: Pick<v1.Job, "items">): string[] {
  return [...new Set(items.map(({ error }) => error?.message ?? "").filter((message) => message !== ""))].slice(0, REASONS_MAX);
}
