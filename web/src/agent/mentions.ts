// The resources that a message can mention.
import { create } from "@bufbuild/protobuf";
import { useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { usePrompts, useTags } from "../documents/queries.js";

const SCHEMAS_MAX = 100;

/** Returns the schemas of the organization by name, at most 100 of them. */
export function useSchemas() {
  const api = useApi();
  return useQuery({
    queryKey: ["schemas"],
    queryFn: async ({ signal }) => (await api.schemas.listSchemas({ pageSize: SCHEMAS_MAX, orderBy: "name" }, { signal })).schemas,
  });
}

/** Returns the options of the mentions. The key of an option names the kind and the id. */
export function useMentions() {
  const schemas = useSchemas();
  const prompts = usePrompts();
  const tags = useTags();
  const options = [
    { group: "Schemas", items: (schemas.data ?? []).map(({ schemaRevid, name }) => ({ value: `schema:${schemaRevid}`, label: name })) },
    { group: "Prompts", items: (prompts.data ?? []).map(({ promptRevid, name }) => ({ value: `prompt:${promptRevid}`, label: name })) },
    { group: "Tags", items: (tags.data ?? []).map(({ tagId, name }) => ({ value: `tag:${tagId}`, label: name })) },
  ];
  return { options };
}

/** Returns the mention of a key. Undefined: the key is invalid. */
export function mentionOf(key: string): v1.Mention | undefined {
  const [kind, id = ""] = key.split(":", 2);
  if (id === "") return undefined;
  switch (kind) {
    case "schema": return create(v1.MentionSchema, { target: { case: "schemaRevid", value: id } });
    case "prompt": return create(v1.MentionSchema, { target: { case: "promptRevid", value: id } });
    case "tag": return create(v1.MentionSchema, { target: { case: "tagId", value: id } });
    default: return undefined;
  }
}
