// The searches of the server, translated to the passages of the view.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { rankText, type Match, type PageBox, type Passage, type SearchAnswer } from "./passages.js";
import type { SearchState } from "./search_parameters.js";

/** Number of passages of an answer, and of an answer after the visitor wants more. */
export const LIMIT_FIRST = 20;
export const LIMIT_MAX = 50;

/** Returns the passages that match a search best. */
export function useSearch({ query, tagIds }: SearchState, limit: number) {
  const api = useApi();
  return useQuery({
    queryKey: ["search", { query, tagIds, limit }],
    queryFn: async ({ signal }) => answerOf(await api.service(v1.RetrievalService).search({ query, passageFilter: { tagIds: [...tagIds] }, limit }, { signal })),
    enabled: query !== "",
    placeholderData: keepPreviousData,
    // A search may call the embedding model, which is charged.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    staleTime: 60_000,
  });
}

function answerOf({ passages, lexical, dense, rerank }: v1.SearchResponse): SearchAnswer {
  const gaps = [["Words", lexical], ["Meaning", dense], ["Order", rerank]] as const;
  return {
    passages: passages.map(passageOf),
    gaps: gaps.flatMap(([name, part]) => part?.gaps.map(({ description }) => `${name}: ${description}.`) ?? []),
  };
}

function passageOf({ documentId, documentName, number, page, sectionTitles, text, highlights, areas, lexical, dense }: v1.FoundPassage): Passage {
  const ranks = [rankText("words", lexical?.rank), rankText("meaning", dense?.rank)].filter((rank) => rank !== undefined);
  return { key: `${documentId}/${number}`, documentId, documentName, page, sectionTitles, text, matches: highlights.map(matchOf), boxes: areas.flatMap((area) => boxOf(area) ?? []), ranks };
}

function matchOf({ start, end, area }: v1.PassageHighlight): Match {
  return { start, end, box: boxOf(area) };
}

function boxOf(area: v1.PassageArea | undefined): PageBox | undefined {
  const box = area?.boundingBox;
  return area === undefined || box === undefined ? undefined : { page: area.page, left: box.left, top: box.top, right: box.right, bottom: box.bottom };
}
