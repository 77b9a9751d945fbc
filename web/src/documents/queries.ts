// The queries of documents and of their tags.
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { isUnsettled, serverFilter, type DocumentFilters } from "./filters.js";

const PAGE = 200;
/** Delay between two reads of a list whose documents are being read, in milliseconds. */
const REFRESH_MS = 3_000;
const TAGS_MAX = 1_000;

/** Returns the pages of the documents that match the filters. */
export function useDocuments(filters: DocumentFilters) {
  const api = useApi();
  const request = { pageSize: PAGE, filter: serverFilter(filters), orderBy: filters.orderBy };
  return useInfiniteQuery({
    queryKey: ["documents", request],
    queryFn: ({ pageParam, signal }) => api.service(v1.DocumentService).listDocuments({ ...request, pageToken: pageParam }, { signal }),
    initialPageParam: "",
    getNextPageParam: (last) => last.nextPageToken || undefined,
    placeholderData: keepPreviousData,
    refetchInterval: (query) => {
      const pages = query.state.data?.pages ?? [];
      // Reading several pages again is expensive; the first one has the newest documents.
      const isReading = pages.length === 1 && pages[0]?.documents.some(({ state }) => isUnsettled(state));
      return isReading === true ? REFRESH_MS : false;
    },
  });
}

/** Returns the tags of the organization by name. */
export function useTags() {
  const api = useApi();
  return useQuery({
    queryKey: ["tags"],
    queryFn: async ({ signal }) => (await api.service(v1.TagService).listTags({ pageSize: TAGS_MAX, orderBy: "name" }, { signal })).tags,
  });
}
