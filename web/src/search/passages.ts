// Passages that a search found, as the view shows them. No I/O.
import { boxLink } from "../document/box_link.js";
import type { Box } from "../document/focus.js";
import { formatNumber } from "../format.js";
import type { v1 } from "folio-client";

/** Maximum length of a query, in characters. */
export const QUERY_MAX = 4_000;
/** Maximum number of characters of a passage that are shown without an action. */
const SHOWN_CHARS = 600;

/** A rectangle on a page. */
export interface PageBox extends Box {
  readonly page: number;
}

/** A word of a passage that matches the query. `start` and `end`: the indexes of its first character and of the one after its last. */
export interface Match {
  readonly start: number;
  readonly end: number;
  /** The rectangle of the word. Undefined: its position on the page is unknown. */
  readonly box: PageBox | undefined;
}

export interface Passage {
  readonly key: string;
  readonly documentId: string;
  readonly documentName: string;
  readonly page: number;
  readonly sectionTitles: readonly string[];
  readonly text: string;
  readonly matches: readonly Match[];
  /** The rectangles around the words of the passage, at most one for each page. */
  readonly boxes: readonly PageBox[];
  /** The ranks in the parts of the search, such as `words 1`. */
  readonly ranks: readonly string[];
}

export interface SearchAnswer {
  readonly passages: readonly Passage[];
  /** The reasons for which the search did not consider all passages, one sentence for each. */
  readonly gaps: readonly string[];
}

/** A quote that supports an answer. */
export interface AnswerQuote {
  /** The number in the text of the answer. */
  readonly number: number;
  readonly documentId: string;
  readonly documentName: string;
  readonly page: number;
  readonly sectionTitles: readonly string[];
  readonly quote: string;
  /** The rectangles around the words of the passage, at most one for each page. */
  readonly boxes: readonly PageBox[];
}

/** The answer of a model to a question. */
export interface ModelAnswer {
  /** Empty: the passages contain no answer that a quote supports. */
  readonly text: string;
  readonly citations: readonly AnswerQuote[];
  /** Number of quotes of the model that were removed, because their passages do not contain them. */
  readonly removedCitations: number;
  /** Number of passages that the model read. 0: no model was called. */
  readonly passages: number;
  readonly model: string;
  readonly usage: v1.Usage | undefined;
  readonly gaps: readonly string[];
}

/** A part of a text that matches the query (`isMatch`), or does not. */
export interface TextPart {
  readonly text: string;
  readonly isMatch: boolean;
}

/**
 * Returns the parts of the text of a passage in their order. A match that is outside of the text, or overlaps an earlier match, is
 * ignored. `isWhole`: if false, a long text is shortened around its first match.
 */
export function partsOf(text: string, matches: readonly Pick<Match, "start" | "end">[], isWhole: boolean): TextPart[] {
  const characters = [...text];
  const first = matches[0]?.start ?? 0;
  const from = isWhole ? 0 : Math.max(Math.min(first - SHOWN_CHARS / 4, characters.length - SHOWN_CHARS), 0);
  const to = isWhole ? characters.length : Math.min(from + SHOWN_CHARS, characters.length);
  const parts: TextPart[] = [];
  const add = (start: number, end: number, isMatch: boolean) => {
    const part = characters.slice(start, end).join("");
    if (part !== "") parts.push({ text: part, isMatch });
  };
  if (from > 0) parts.push({ text: "… ", isMatch: false });
  let at = from;
  for (const { start, end } of [...matches].sort((a, b) => a.start - b.start)) {
    if (start < at || end <= start || end > to) continue;
    add(at, start, false);
    add(start, end, true);
    at = end;
  }
  add(at, to, false);
  if (to < characters.length) parts.push({ text: " …", isMatch: false });
  return parts;
}

/** Returns a part of a text without the bars (`|`) of empty cells of tables, for people. */
export function withoutEmptyCells(text: string): string {
  return text
    .replace(/(?:\|[^\S\n]{0,9}){2,}/g, "| ")
    .replace(/\n[^\S\n]{0,9}\|[^\S\n]{0,9}/g, "\n")
    .replace(/[^\S\n]{0,9}\|[^\S\n]{0,9}\n/g, "\n");
}

/** Returns true if a part of the text is hidden at first. */
export function isLong(text: string): boolean {
  return [...text].length > SHOWN_CHARS;
}

/** Returns the address of a passage in its document. It marks the matching words if their positions are known, otherwise the passage. */
export function passageLink({ documentId, page, matches, boxes }: Passage): string {
  const words = matches.flatMap(({ box }) => box ?? []);
  const target = words[0]?.page ?? boxes[0]?.page ?? page;
  const onTarget = (box: PageBox) => box.page === target;
  const found = words.filter(onTarget);
  return boxLink(documentId, target, found.length > 0 ? found : boxes.filter(onTarget));
}

/** Returns the address of a quote in its document. It marks the quote, or the passage if the page does not contain the quote. */
export function quoteAddress({ documentId, page, quote, boxes }: AnswerQuote): string {
  return boxLink(documentId, page, boxes.filter((box) => box.page === page), quote);
}

/** Returns the rank of a passage in a part of a search as text, such as `words 1`. Undefined: the part did not rank the passage. */
export function rankText(part: string, rank: number | undefined): string | undefined {
  return rank === undefined ? undefined : `${part} ${formatNumber(rank)}`;
}
