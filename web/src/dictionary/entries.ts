// Texts, filters and bounds of entries of the dictionary. No I/O.
import { v1 } from "folio-client";
import { quoted } from "../documents/filters.js";

export const TERM_MAX = 100;
export const EXPANSION_MAX = 500;
export const DISAMBIGUATION_MAX = 2_000;
const TAGS_MAX = 20;
export const TAG_MAX = 50;
/** Maximum length of a searched part of a term. */
const SEARCH_MAX = 200;
/** Maximum size of an imported file in bytes. */
const FILE_BYTES_MAX = 1024 * 1024;

/** The origins of meanings with their names in filters. */
export const PROVENANCES = [
  { value: "person", label: "Person", provenance: v1.DictionaryProvenance.PERSON, color: "green" },
  { value: "agent", label: "Agent", provenance: v1.DictionaryProvenance.AGENT, color: "blue" },
  { value: "inferred", label: "Inferred", provenance: v1.DictionaryProvenance.INFERRED, color: "yellow" },
] as const;

/** Returns the name and the color of an origin. */
export function provenanceOf(provenance: v1.DictionaryProvenance): { readonly label: string; readonly color: string } {
  return PROVENANCES.find((known) => known.provenance === provenance) ?? { label: "Unknown", color: "gray" };
}

/** The conditions of a list. An empty one filters nothing. */
export interface EntryFilters {
  readonly text: string;
  readonly tag: string;
  readonly provenance: string;
}

/** Returns the conditions of an address. Invalid ones filter nothing, because a user may have typed the address. */
export function entryFiltersOf(parameters: URLSearchParams): Omit<EntryFilters, "text"> {
  const provenance = PROVENANCES.find(({ value }) => value === parameters.get("provenance"))?.value ?? "";
  return { tag: (parameters.get("tag") ?? "").trim().slice(0, TAG_MAX), provenance };
}

/** Returns the `filter` of `ListDictionaryEntries`. */
export function entryFilter({ text, tag, provenance }: EntryFilters): string {
  const term = text.trim().slice(0, SEARCH_MAX);
  return [
    term === "" ? "" : `term:${quoted(term)}`,
    tag.trim() === "" ? "" : `tag:${quoted(tag.trim())}`,
    provenance === "" ? "" : `provenance:${provenance}`,
  ].filter((condition) => condition !== "").join(" ");
}

/** Returns the reason for which the server would refuse the tags of an entry. Undefined: it would not. */
export function tagsProblem(tags: readonly string[]): string | undefined {
  if (tags.length > TAGS_MAX) return `An entry has at most ${TAGS_MAX} tags.`;
  if (tags.some((tag) => [...tag].length > TAG_MAX || tag.includes(";"))) return `A tag has at most ${TAG_MAX} characters and no semicolon.`;
  return undefined;
}

/** Returns the format of a file by its name. */
export function formatOfFile(name: string): v1.DictionaryFormat {
  return /\.csv$/i.test(name) ? v1.DictionaryFormat.CSV : v1.DictionaryFormat.JSON_LINES;
}

/** Returns the reason for which the server would refuse a file. Undefined: it would not refuse its size. */
export function fileProblem({ size }: Pick<File, "size">): string | undefined {
  return size > FILE_BYTES_MAX ? "The file is larger than 1 MiB. Divide it into several files." : undefined;
}

/** Returns the text of a file. Undefined: its bytes are not UTF-8. */
export function textOfFile(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns the result of an import in one sentence. */
export function importSentence({ createdCount, updatedCount, failedCount }: Pick<v1.ImportDictionaryResponse, "createdCount" | "updatedCount" | "failedCount">): string {
  return `${createdCount} entries created, ${updatedCount} existed, ${failedCount} rows not written.`;
}
