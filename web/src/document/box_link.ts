// Boxes or words of a page in the address of a document, so that a link leads to them. No I/O.
import type { Box, Highlight } from "./focus.js";

/** Maximum number of boxes in an address. Further ones are left out. */
export const BOXES_MAX = 40;
/** Maximum length of a quote in an address, in characters. The rest is left out. */
const QUOTE_MAX = 400;
const DIGITS = 4;
const PATTERN = /^(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?),(\d(?:\.\d{1,8})?)$/;

/** Returns the address of boxes on a page. `quote`: words that are highlighted instead if the page contains them. Empty: none. */
export function boxLink(documentId: string, page: number, boxes: readonly Box[], quote = ""): string {
  const parameters = new URLSearchParams({ page: String(page) });
  for (const { left, top, right, bottom } of boxes.slice(0, BOXES_MAX)) {
    parameters.append("box", [left, top, right, bottom].map((value) => String(Number(value.toFixed(DIGITS)))).join(","));
  }
  const characters = [...quote.trim()];
  if (characters.length > 0) parameters.set("quote", characters.length > QUOTE_MAX ? `${characters.slice(0, QUOTE_MAX).join("")}…` : characters.join(""));
  return `/documents/${encodeURIComponent(documentId)}?${parameters.toString()}`;
}

/** Returns the boxes or the quote of an address. Invalid ones are ignored, because a user may have typed the address. Undefined: there is none. */
export function linkedHighlight(parameters: URLSearchParams): Highlight | undefined {
  const page = Number(parameters.get("page"));
  if (!Number.isInteger(page) || page < 1) return undefined;
  const boxes = parameters.getAll("box").slice(0, BOXES_MAX).flatMap((text) => boxOf(text) ?? []);
  const quote = [...(parameters.get("quote") ?? "")].slice(0, QUOTE_MAX + 1).join("").trim();
  if (boxes.length === 0 && quote === "") return undefined;
  return { page, boxes, ...(quote !== "" && { quote }) };
}

function boxOf(text: string): Box | undefined {
  const edges: readonly string[] = PATTERN.exec(text)?.slice(1) ?? [];
  const [left = 0, top = 0, right = 0, bottom = 0] = edges.map(Number);
  const isBox = left < right && top < bottom && right <= 1 && bottom <= 1;
  return isBox ? { left, top, right, bottom } : undefined;
}
