// The rule of a collection or of a stack: tags and metadata that a document must have. No I/O.

/** Maximum number of tags and metadata values of a rule together. */
export const CONDITIONS_MAX = 20;
export const KEY_MAX = 200;
export const VALUE_BYTES_MAX = 1_024;

/** A metadata value of a rule as it is typed. */
export interface MetadataRow {
  readonly key: string;
  readonly value: string;
}

/** A rule as it is edited. */
export interface RuleDraft {
  readonly tagIds: readonly string[];
  readonly metadata: readonly MetadataRow[];
}

export const EMPTY_RULE: RuleDraft = { tagIds: [], metadata: [] };

/** Returns the draft of a stored rule. */
export function draftOf({ tagIds, metadata }: { readonly tagIds: readonly string[]; readonly metadata: Readonly<Record<string, string>> }): RuleDraft {
  return { tagIds: [...tagIds], metadata: Object.entries(metadata).map(([key, value]) => ({ key, value })) };
}

/** Returns the metadata of a draft. Rows without a key are ignored. */
export function metadataOf({ metadata }: RuleDraft): Record<string, string> {
  return Object.fromEntries(metadata.map(({ key, value }) => [key.trim(), value] as const).filter(([key]) => key !== ""));
}

/** Returns the problem of a draft. Empty: the rule is valid. The server checks it, too. */
export function problemOf(draft: RuleDraft): string {
  const keys = draft.metadata.map(({ key }) => key.trim()).filter((key) => key !== "");
  const conditions = draft.tagIds.length + keys.length;
  if (conditions === 0) return "A rule has at least one tag or one metadata value.";
  if (conditions > CONDITIONS_MAX) return `A rule has at most ${CONDITIONS_MAX} tags and metadata values.`;
  if (new Set(keys).size < keys.length) return "A metadata key occurs twice.";
  const isLong = draft.metadata.some(({ value }) => new TextEncoder().encode(value).length > VALUE_BYTES_MAX);
  return isLong ? "A metadata value is longer than 1 KiB." : "";
}

/** Returns the metadata of a rule as texts for people, such as `country = MY`. */
export function metadataTexts(metadata: Readonly<Record<string, string>>): string[] {
  return Object.entries(metadata).map(([key, value]) => `${key} = ${value}`);
}
