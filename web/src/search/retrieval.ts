// The searches of the server, translated to the passages of the view.
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { v1 } from "folio-client";
import { useApi } from "../api/api.js";
import { rankText, type ModelAnswer, type Match, type PageBox, type Passage, type SearchAnswer } from "./passages.js";
import type { SearchState } from "./search_parameters.js";

/** Number of passages of an answer, and of an answer after the visitor wants more. */
export const LIMIT_FIRST = 20;
export const LIMIT_MAX = 50;

/** Returns the passages that match a search best. */
export function useSearch(search: SearchState, limit: number) {
  const api = useApi();
  const { query } = search;
  return useQuery({
    queryKey: ["search", { ...search, limit }],
    queryFn: async ({ signal }) => answerOf(await api.service(v1.RetrievalService).search({ query, passageFilter: filterOf(search), limit }, { signal })),
    enabled: query !== "",
    placeholderData: keepPreviousData,
    // A search may call the embedding model, which is charged.
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
    staleTime: 60_000,
  });
}

/** Returns the question to a model, which answers it from the passages that match best. Each question is charged. */
export function useAsk() {
  const api = useApi();
  return useMutation({
    mutationFn: async (search: SearchState) => modelAnswerOf(await api.service(v1.RetrievalService).ask({ question: search.query, passageFilter: filterOf(search) })),
  });
}

function filterOf({ tagIds, collectionId }: SearchState) {
  return { tagIds: [...tagIds], collectionIds: collectionId === "" ? [] : [collectionId] };
}

function answerOf(response: v1.SearchResponse): SearchAnswer {
  return { passages: response.passages.map(passageOf), gaps: gapsOf(response) };
}

function gapsOf({ lexical, dense, rerank }: Pick<v1.SearchResponse, "lexical" | "dense" | "rerank">): string[] {
  const parts = [["Words", lexical], ["Meaning", dense], ["Order", rerank]] as const;
  return parts.flatMap(([name, part]) => part?.gaps.map(({ description }) => `${name}: ${description}.`) ?? []);
}

function modelAnswerOf(response: v1.AskResponse): ModelAnswer {
  const { answer, citations, removedCitations, passages, model, usage } = response;
  return {
    text: answer,
    citations: citations.map(({ number, documentId, documentName, page, sectionTitles, quote, areas }) => ({
      number, documentId, documentName, page, sectionTitles, quote, boxes: areas.flatMap((area) => boxOf(area) ?? []),
    })),
    removedCitations,
    passages,
    model,
    usage,
    gaps: gapsOf(response),
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
