// Texts and checks of tool calls. No I/O.
import { v1 } from "folio-client";
import { parsed, type Json } from "../extraction/fields.js";

/** Maximum size of the arguments of a decision in bytes. */
export const ARGUMENTS_BYTES_MAX = 128 * 1024;
/** Maximum length of the reason of a rejection. */
export const REASON_MAX = 2_000;
const SUMMARY_VALUES = 3;
const SUMMARY_LENGTH = 60;

/** Returns a readable summary, such as `Create tag: paid`. */
export function summaryOf(name: string, argumentsJson: string): string {
  const words = name.replaceAll("_", " ");
  const title = words.charAt(0).toUpperCase() + words.slice(1);
  const value = parsed(argumentsJson);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return title;
  const texts = Object.values(value).filter((one): one is string | number => typeof one === "string" || typeof one === "number");
  const shown = texts.slice(0, SUMMARY_VALUES).map((one) => shortened(String(one)));
  return shown.length === 0 ? title : `${title}: ${shown.join(", ")}`;
}

function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const characters = [...line];
  return characters.length > SUMMARY_LENGTH ? `${characters.slice(0, SUMMARY_LENGTH).join("")}…` : line;
}

/** Returns indented JSON. A text that is no JSON is returned unchanged. */
export function indented(json: string): string {
  const value = parsed(json);
  return value === undefined ? json : JSON.stringify(value, null, 2);
}

/** Returns the sentence that states the users that may approve a call, and by which rule. */
export function approversOf(requirement: v1.ApprovalRequirement | undefined): string {
  if (requirement === undefined) return "Needs no approval.";
  const { rule, roles, notByRequester } = requirement;
  const names = roles.map((role) => `${v1.Role[role]?.toLowerCase() ?? "other"}s`);
  const users = names.length === 0 ? "every user with write access to the conversation" : names.join(" or ");
  const excluded = notByRequester ? ", but not by the user that sent the message" : "";
  const reason = rule === "" ? "calls that write wait by default" : `rule “${rule}”`;
  return `May be approved by ${users}${excluded} (${reason}).`;
}

const { OK, FAILED, REJECTED, CANCELLED, EXPIRED, SUPERSEDED, CONFLICT, NOT_RUN, UNKNOWN } = v1.CallStatus;
const STATUS: Partial<Record<v1.CallStatus, readonly [label: string, color: string]>> = {
  [OK]: ["Done", "green"],
  [FAILED]: ["Failed", "red"],
  [REJECTED]: ["Rejected", "gray"],
  [CANCELLED]: ["Cancelled", "gray"],
  [EXPIRED]: ["Expired", "gray"],
  [SUPERSEDED]: ["Superseded", "gray"],
  [CONFLICT]: ["Target changed, nothing written", "yellow"],
  [NOT_RUN]: ["Not run", "gray"],
  [UNKNOWN]: ["Result unknown", "yellow"],
};

export function statusOf(status: v1.CallStatus): readonly [label: string, color: string] {
  return STATUS[status] ?? ["", "gray"];
}

/** Returns the edited arguments, or the problem of the text. The server checks them with the schema of the tool. */
export function editedArguments(text: string): { readonly value: Record<string, Json> } | { readonly problem: string } {
  if (new TextEncoder().encode(text).length > ARGUMENTS_BYTES_MAX) return { problem: "The arguments are longer than 128 KiB." };
  const value = parsed(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { problem: "The arguments must be a JSON object." };
  return { value: value as Record<string, Json> };
}
