// Search in the text and the words of a document. No I/O.
import type { v1 } from "folio-client";

/** Maximum length of a search text. */
export const SEARCH_MAX = 200;
/** Maximum number of matches that are counted. */
export const MATCHES_MAX = 1_000;

/** A page with matches. */
export interface PageMatches {
  readonly page: number;
  readonly count: number;
}

/** Returns a text for comparisons: in lower case, normalized, and with single spaces. */
function folded(text: string): string {
  return text.normalize("NFKC").toLowerCase().replace(/\s+/g, " ").trim();
}

/** Returns the pages that contain the text, with the number of its occurrences. */
export function matchingPages(pages: readonly Pick<v1.PageText, "number" | "text">[], text: string): PageMatches[] {
  const wanted = folded(text);
  if (wanted === "") return [];
  const found: PageMatches[] = [];
  let total = 0;
  for (const page of pages) {
    const content = folded(page.text);
    let count = 0;
    for (let at = content.indexOf(wanted); at >= 0 && total < MATCHES_MAX; at = content.indexOf(wanted, at + wanted.length)) {
      count += 1;
      total += 1;
    }
    if (count > 0) found.push({ page: page.number, count });
  }
  return found;
}

/** Returns the indexes of the words that belong to an occurrence of the text. */
export function matchingWords(words: readonly Pick<v1.PageWord, "text">[], text: string): Set<number> {
  const wanted = folded(text);
  const found = new Set<number>();
  if (wanted === "") return found;
  let content = "";
  const starts: number[] = [];
  for (const { text } of words) {
    if (content !== "") content += " ";
    starts.push(content.length);
    content += folded(text);
  }
  let index = 0;
  for (let at = content.indexOf(wanted); at >= 0; at = content.indexOf(wanted, at + wanted.length)) {
    const end = at + wanted.length;
    while (index + 1 < starts.length && (starts[index + 1] ?? 0) <= at) index += 1;
    for (let word = index; word < starts.length && (starts[word] ?? 0) < end; word++) found.add(word);
  }
  return found;
}

/** Minimum number and share of the words of a quote that are highlighted without the rest. */
const QUOTE_WORDS_MIN = 3;
const QUOTE_SHARE_MIN = 0.25;

/**
 * Returns the indexes of the words of a page that belong to a quote. A quote whose ends are cut has an ellipsis there. If the page does
 * not contain all of it, because it began on the page before or ends on the next one, its longest beginning or end is highlighted that occurs.
 */
export function quotedWords(words: readonly Pick<v1.PageWord, "text">[], quote: string): Set<number> {
  const wanted = quote.trim().replace(/^…\S*|\S*…$/g, "").trim().split(/\s+/);
  const whole = matchingWords(words, wanted.join(" "));
  if (whole.size > 0) return whole;
  const least = Math.max(QUOTE_WORDS_MIN, Math.ceil(wanted.length * QUOTE_SHARE_MIN));
  for (let length = wanted.length - 1; length >= least; length--) {
    for (const part of [wanted.slice(0, length), wanted.slice(-length)]) {
      const found = matchingWords(words, part.join(" "));
      if (found.size > 0) return found;
    }
  }
  return new Set();
}

/** Returns the page of the next match after the current page, in a direction, or undefined if there is none. */
export function nextMatch(matches: readonly PageMatches[], current: number, direction: 1 | -1): number | undefined {
  const ordered = direction === 1 ? matches : [...matches].reverse();
  const next = ordered.find(({ page }) => (direction === 1 ? page > current : page < current));
  return (next ?? ordered[0])?.page;
}
