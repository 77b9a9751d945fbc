// The filters of the document list, as query parameters of the page and as `filter` of `ListDocuments`. No I/O.
import { v1 } from "folio-client";

export const STATES = ["uploaded", "processing", "ready", "no_text", "failed"] as const;
export type StateFilter = (typeof STATES)[number];

/** The filters that the user chose. An empty field filters nothing. */
export interface DocumentFilters {
  readonly text: string;
  readonly state: StateFilter | "";
  readonly tagIds: readonly string[];
  readonly orderBy: string;
}

export const ORDERS = ["create_time desc", "create_time", "name", "name desc"] as const;
/** Maximum length of the text of a `name:` condition. */
export const TEXT_MAX = 200;
/** Maximum number of `tag:` conditions. */
const TAGS_MAX = 50;

/** Returns the filters of the query parameters. An invalid parameter is ignored, because a user may have typed the URL. */
export function filtersOf(parameters: URLSearchParams): DocumentFilters {
  const state = STATES.find((state) => state === parameters.get("state")) ?? "";
  const orderBy = ORDERS.find((order) => order === parameters.get("order")) ?? ORDERS[0];
  const tagIds = parameters.getAll("tag").filter((id) => /^[a-z0-9_]{1,64}$/.test(id)).slice(0, TAGS_MAX);
  return { text: (parameters.get("q") ?? "").slice(0, TEXT_MAX), state, tagIds, orderBy };
}

/** Returns the query parameters of the filters, without those that have their default. */
export function parametersOf(filters: DocumentFilters): URLSearchParams {
  const parameters = new URLSearchParams();
  if (filters.text !== "") parameters.set("q", filters.text);
  if (filters.state !== "") parameters.set("state", filters.state);
  for (const tagId of filters.tagIds) parameters.append("tag", tagId);
  if (filters.orderBy !== ORDERS[0]) parameters.set("order", filters.orderBy);
  return parameters;
}

/** Returns a value of a condition in quotation marks. */
export function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, "\\$&")}"`;
}

/** Returns the condition for names that contain a text. Empty: the text is blank. */
export function nameFilter(text: string): string {
  const name = text.trim();
  return name === "" ? "" : `name:${quoted(name)}`;
}

/** Returns the `filter` of `ListDocuments`: the conditions, all of which must be true. */
export function serverFilter({ text, state, tagIds }: DocumentFilters): string {
  const conditions = tagIds.map((id) => `tag:${id}`);
  if (state !== "") conditions.push(`state=${state}`);
  return [nameFilter(text), ...conditions].filter((condition) => condition !== "").join(" ");
}

/** Returns true if no filter is set, so that the list shows all documents. The order does not count. */
export function isUnfiltered({ text, state, tagIds }: DocumentFilters): boolean {
  return text.trim() === "" && state === "" && tagIds.length === 0;
}

const LABELS: Readonly<Record<v1.DocumentState, { readonly label: string; readonly color: string }>> = {
  [v1.DocumentState.UNSPECIFIED]: { label: "Unknown", color: "gray" },
  [v1.DocumentState.UPLOADED]: { label: "Uploaded", color: "gray" },
  [v1.DocumentState.PROCESSING]: { label: "Reading", color: "blue" },
  [v1.DocumentState.READY]: { label: "Ready", color: "green" },
  [v1.DocumentState.NO_TEXT]: { label: "No text", color: "yellow" },
  [v1.DocumentState.FAILED]: { label: "Failed", color: "red" },
};

export function stateLabel(state: v1.DocumentState): { readonly label: string; readonly color: string } {
  return LABELS[state] ?? LABELS[v1.DocumentState.UNSPECIFIED];
}

/** Returns true if the server has not finished the extraction of the text, so that the state changes without a user. */
export function isUnsettled(state: v1.DocumentState): boolean {
  return state === v1.DocumentState.UPLOADED || state === v1.DocumentState.PROCESSING;
}
