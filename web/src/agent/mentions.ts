// The resources that a message can mention.
import { create } from "@bufbuild/protobuf";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useRef } from "react";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";
import { useTags } from "../documents/queries.js";
import { usePrompts } from "../prompts/queries.js";

const SCHEMAS_MAX = 100;
const SEARCH_DELAY_MS = 250;
/** Maximum length of a searched part of a name. */
export const SEARCH_MAX = 200;

/** Returns the schemas whose name contains a text, by name, at most 100 of them. */
export function useSchemas(text = "") {
  const api = useApi();
  const filter = nameFilter(text);
  return useQuery({
    queryKey: ["schemas", { filter }],
    queryFn: async ({ signal }) => (await api.service(v1.SchemaService).listSchemas({ pageSize: SCHEMAS_MAX, orderBy: "name", filter }, { signal })).schemas,
    placeholderData: keepPreviousData,
  });
}

/** An option of the mentions. Its key names the kind and the id. */
interface MentionOption {
  readonly value: string;
  readonly label: string;
}

interface MentionGroup {
  readonly group: string;
  readonly items: MentionOption[];
}

/**
 * Returns the options that match a text, with the chosen ones, which may match another text. `text`: the server searches schemas and
 * prompts; the input searches the tags.
 */
export function useMentions(text: string, chosen: readonly string[]): MentionGroup[] {
  const [searched] = useDebouncedValue(text, SEARCH_DELAY_MS);
  const schemas = useSchemas(searched);
  const prompts = usePrompts(searched);
  const tags = useTags();
  const labels = useRef(new Map<string, string>());
  const groups = [
    { kind: "schema", group: "Schemas", items: (schemas.data ?? []).map(({ schemaRevid, name }) => ({ value: `schema:${schemaRevid}`, label: name })) },
    { kind: "prompt", group: "Prompts", items: (prompts.data ?? []).map(({ promptRevid, name }) => ({ value: `prompt:${promptRevid}`, label: name })) },
    { kind: "tag", group: "Tags", items: (tags.data ?? []).map(({ tagId, name }) => ({ value: `tag:${tagId}`, label: name })) },
  ];
  for (const { items } of groups) for (const { value, label } of items) if (chosen.includes(value)) labels.current.set(value, label);
  return groups.map(({ kind, group, items }) => ({ group, items: withChosen(kind, items, chosen, labels.current) }));
}

/** Returns the options of a kind with the chosen ones that they lack. A chosen option without a known label has its key. */
export function withChosen(kind: string, found: readonly MentionOption[], chosen: readonly string[], labels: ReadonlyMap<string, string>): MentionOption[] {
  const missing = chosen.filter((key) => key.startsWith(`${kind}:`) && !found.some(({ value }) => value === key));
  return [...found, ...missing.map((value) => ({ value, label: labels.get(value) ?? value }))];
}

/** Returns true if an `@` at a position of a text begins a mention. After a letter or a digit it is a part of an address, such as `a@b.example`. */
export function beginsMention(text: string, position: number): boolean {
  return !/[A-Za-z0-9._+-]$/.test(text.slice(0, position));
}

/** Returns the mention of a key. Undefined: the key is invalid. */
export function mentionOf(key: string): v1.Mention | undefined {
  const [kind, id = ""] = key.split(":", 2);
  if (id === "") return undefined;
  switch (kind) {
    case "schema": return create(v1.MentionSchema, { target: { case: "schemaRevid", value: id } });
    case "prompt": return create(v1.MentionSchema, { target: { case: "promptRevid", value: id } });
    case "tag": return create(v1.MentionSchema, { target: { case: "tagId", value: id } });
    case "collection": return create(v1.MentionSchema, { target: { case: "collectionId", value: id } });
    default: return undefined;
  }
}
