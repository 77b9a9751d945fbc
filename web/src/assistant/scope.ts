// The documents that a conversation with the assistant is about, as parameters of the page. No I/O.
import { member } from "../agent/steps.js";
import { ASSISTANT, type Subject } from "../agent/subject.js";
import { parsed, type Json } from "../extraction/fields.js";

/** Maximum number of documents of a thread. */
export const DOCUMENTS_MAX = 100;
const ID = /^[a-z0-9_]{1,64}$/;
/** The parameters of the address with the scope. */
export const SCOPE_PARAMETERS: readonly string[] = ["about", "document", "tag", "collection"];

export type ScopeKind = "all" | "documents" | "tag" | "collection";

/** The documents of a new conversation. At most one member is not empty. */
export interface Scope {
  readonly kind: ScopeKind;
  readonly documentIds: readonly string[];
  /** Empty: not chosen. */
  readonly tagId: string;
  readonly collectionId: string;
}

/** Returns the scope of an address. Invalid parameters are ignored, because a user may have typed the address. */
export function scopeOf(parameters: URLSearchParams): Scope {
  const kind = (["documents", "tag", "collection"] as const).find((known) => known === parameters.get("about")) ?? "all";
  const ids = (name: string) => [...new Set(parameters.getAll(name).filter((id) => ID.test(id)))];
  return {
    kind,
    documentIds: kind === "documents" ? ids("document").slice(0, DOCUMENTS_MAX) : [],
    tagId: kind === "tag" ? (ids("tag")[0] ?? "") : "",
    collectionId: kind === "collection" ? (ids("collection")[0] ?? "") : "",
  };
}

/** Replaces the scope of an address. Other parameters are kept. */
export function setScope(parameters: URLSearchParams, { kind, documentIds, tagId, collectionId }: Scope): URLSearchParams {
  for (const name of SCOPE_PARAMETERS) parameters.delete(name);
  parameters.set("about", kind);
  for (const id of documentIds) parameters.append("document", id);
  if (tagId !== "") parameters.set("tag", tagId);
  if (collectionId !== "") parameters.set("collection", collectionId);
  return parameters;
}

/** Returns the scope of the newest answered message of a conversation. Several tags or collections, which the page cannot show, are no scope. */
export function scopeOfMemory(profileStateJson: string): Scope {
  const state = parsed(profileStateJson);
  const ids = (name: string) => {
    const found = member(state, name);
    const list = Array.isArray(found) ? (found as readonly Json[]) : [];
    return list.filter((id): id is string => typeof id === "string" && ID.test(id));
  };
  const [tags, collections] = [ids("mentioned_tags"), ids("mentioned_collections")];
  const all: Scope = { kind: "all", documentIds: [], tagId: "", collectionId: "" };
  if (tags.length + collections.length !== 1) return all;
  const [tagId = "", collectionId = ""] = [tags[0], collections[0]];
  return { ...all, kind: tagId === "" ? "collection" : "tag", tagId, collectionId };
}

/** Returns the subject of the conversations with the assistant. A tag or a collection is mentioned by each message, which the server enforces. */
export function assistantSubject(scope: Scope): Subject {
  const refusal = refusalOf(scope);
  return {
    key: ASSISTANT,
    profiles: [ASSISTANT],
    filter: "",
    ...(refusal !== "" && { refusal }),
    documentIds: scope.documentIds,
    mentions: [...(scope.tagId === "" ? [] : [`tag:${scope.tagId}`]), ...(scope.collectionId === "" ? [] : [`collection:${scope.collectionId}`])],
    title: "Ask about your documents",
    text: "The assistant finds passages, answers, summarizes and calculates. It names its sources, and changes nothing.",
    placeholder: "Ask a question, or for a summary or a calculation",
  };
}

/** Returns the reason for which no conversation can begin. Empty: one can. */
function refusalOf({ kind, documentIds, tagId, collectionId }: Scope): string {
  if (kind === "documents" && documentIds.length === 0) return "Choose the documents of the conversation.";
  if (kind === "tag" && tagId === "") return "Choose the tag of the conversation.";
  return kind === "collection" && collectionId === "" ? "Choose the collection of the conversation." : "";
}
