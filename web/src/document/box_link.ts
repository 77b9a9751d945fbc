// Boxes of a page in the address of a document, so that a link leads to them. No I/O.
import type { Box, Highlight } from "./focus.js";

/** Maximum number of boxes in an address. Further ones are left out. */
export const BOXES_MAX = 40;
const DIGITS = 4;
const PATTERN = /^(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?)$/;

/** Returns the address of boxes on a page. */
export function boxLink(documentId: string, page: number, boxes: readonly Box[]): string {
  const parameters = new URLSearchParams({ page: String(page) });
  for (const { left, top, right, bottom } of boxes.slice(0, BOXES_MAX)) {
    parameters.append("box", [left, top, right, bottom].map((value) => String(Number(value.toFixed(DIGITS)))).join(","));
  }
  return `/documents/${encodeURIComponent(documentId)}?${parameters.toString()}`;
}

/** Returns the boxes of an address. Invalid ones are ignored, because a user may have typed the address. Undefined: no box is valid. */
export function linkedHighlight(parameters: URLSearchParams): Highlight | undefined {
  const page = Number(parameters.get("page"));
  if (!Number.isInteger(page) || page < 1) return undefined;
  const boxes = parameters.getAll("box").slice(0, BOXES_MAX).flatMap((text) => boxOf(text) ?? []);
  return boxes.length === 0 ? undefined : { page, boxes };
}

function boxOf(text: string): Box | undefined {
  const edges: readonly string[] = PATTERN.exec(text)?.slice(1) ?? [];
  const [left = 0, top = 0, right = 0, bottom = 0] = edges.map(Number);
  const isBox = left < right && top < bottom && right <= 1 && bottom <= 1;
  return isBox ? { left, top, right, bottom } : undefined;
}
