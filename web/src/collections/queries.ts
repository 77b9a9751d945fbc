// The queries of collections.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { nameFilter } from "../documents/filters.js";

export const COLLECTIONS_KEY = ["collections"] as const;
const COLLECTIONS_MAX = 100;

/** Returns the collections whose name contains a text, by name, at most 100 of them. */
export function useCollections(text = "") {
  const api = useApi();
  const filter = nameFilter(text);
  return useQuery({
    queryKey: [...COLLECTIONS_KEY, { filter }],
    queryFn: async ({ signal }) => (await api.service(v1.CollectionService).listCollections({ filter, pageSize: COLLECTIONS_MAX, orderBy: "name" }, { signal })).collections,
    placeholderData: keepPreviousData,
  });
}

/** Returns the options of a list of collections that a text finds. */
export function useCollectionOptions(text: string) {
  return (useCollections(text).data ?? []).map(({ collectionId, name }) => ({ value: collectionId, label: name }));
}

/** Returns a collection. Null: it does not exist. */
export function useCollection(collectionId: string) {
  const api = useApi();
  return useQuery({
    queryKey: [...COLLECTIONS_KEY, "one", collectionId],
    queryFn: async ({ signal }) => (await api.service(v1.CollectionService).getCollection({ collectionId }, { signal })).collection ?? null,
    enabled: collectionId !== "",
  });
}
