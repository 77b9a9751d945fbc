// The queries of prompts.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";

const PROMPTS_MAX = 100;

/** Returns the prompts whose name contains a text, by name, at most 100 of them. */
export function usePrompts(text = "") {
  const api = useApi();
  const filter = nameFilter(text);
  return useQuery({
    queryKey: ["prompts", { filter }],
    queryFn: async ({ signal }) =>
      (await api.service(v1.PromptService).listPrompts({ pageSize: PROMPTS_MAX, orderBy: "name", filter }, { signal })).prompts,
    placeholderData: keepPreviousData,
  });
}
