// The query and the filter of a search as parameters of the page. No I/O.
import { QUERY_MAX } from "./passages.js";

/** Maximum number of tags of a filter. */
const TAGS_MAX = 50;
const ID = /^[a-z0-9_]{1,64}$/;

export interface SearchState {
  /** Empty: no search. */
  readonly query: string;
  readonly tagIds: readonly string[];
  /** Empty: passages of all documents. */
  readonly collectionId: string;
}

/** Returns the search of an address. Invalid parameters are ignored, because a user may have typed the address. */
export function searchOf(parameters: URLSearchParams): SearchState {
  const query = [...(parameters.get("q") ?? "").trim()].slice(0, QUERY_MAX).join("");
  const tagIds = parameters.getAll("tag").filter((id) => ID.test(id)).slice(0, TAGS_MAX);
  const collectionId = parameters.getAll("collection").find((id) => ID.test(id)) ?? "";
  return { query, tagIds, collectionId };
}

/** Returns the parameters of a search. */
export function searchParametersOf({ query, tagIds, collectionId }: SearchState): URLSearchParams {
  const parameters = new URLSearchParams();
  if (query !== "") parameters.set("q", query);
  for (const tagId of tagIds) parameters.append("tag", tagId);
  if (collectionId !== "") parameters.set("collection", collectionId);
  return parameters;
}
