// Texts and checks of tool calls. No I/O.
import { v1 } from "folio-client";
import { parsed, type Json } from "../extraction/fields.js";
import type { JsonProblem } from "../json/problems.js";

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

/** Returns true if a call that writes runs or ran without a decision: the policy or the approval mode of the message approved it. */
export function isApprovedAutomatically({ access, needsApproval }: Pick<v1.Call, "access" | "needsApproval">, status: v1.CallStatus | undefined, isRunning: boolean): boolean {
  return access === v1.ToolAccess.READ_WRITE && !needsApproval && (isRunning || status === OK);
}

/** Returns the edited arguments, or the problem of the text. The server checks them with the schema of the tool. */
export function editedArguments(text: string): { readonly value: Record<string, Json> } | { readonly problem: string } {
  if (new TextEncoder().encode(text).length > ARGUMENTS_BYTES_MAX) return { problem: "The arguments are longer than 128 KiB." };
  const value = parsed(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { problem: "The arguments must be a JSON object." };
  return { value: value as Record<string, Json> };
}

/** The check of edited arguments by the server. */
export interface ArgumentCheck {
  /** The text that was checked. */
  readonly text: string;
  /** True if the call would fail now. */
  readonly hasProblem: boolean;
  /** True if the arguments violate the schema of the tool, so that a decision must not contain them. */
  readonly isRefused: boolean;
}

export interface EditVerdict {
  readonly canApprove: boolean;
  /** The problem of the text, or whether it is marked as invalid. The preview of the effect contains the problem that the server found. */
  readonly error: string | boolean;
  /** The reason why the call cannot be approved now. Empty: it can, or `error` is the reason. */
  readonly note: string;
}

/**
 * Returns whether edited arguments can be approved. `check`: undefined if the server cannot check them. A text with a problem that is no
 * violation of the schema can be approved: a call that refers to an earlier call of its round fails in a preview.
 */
export function editVerdict(text: string, original: string, check: ArgumentCheck | undefined): EditVerdict {
  const edited = editedArguments(text);
  if ("problem" in edited) return { canApprove: false, error: edited.problem, note: "" };
  if (text === original || check === undefined) return { canApprove: true, error: false, note: "" };
  if (check.text !== text) return { canApprove: false, error: false, note: "The server checks the arguments." };
  if (check.isRefused) return { canApprove: false, error: true, note: "The server refuses these arguments. Correct them to approve the call." };
  return { canApprove: true, error: check.hasProblem, note: "" };
}

/** Returns the violations of a problem that a preview states: a line with a JSON pointer and a message for each. Other lines have no position. */
export function problemsOf(problem: string): JsonProblem[] {
  return problem.split("\n").flatMap((line) => {
    const [, path = "", message = ""] = /^(#(?:\/[^\s:]*)*): (.+)$/.exec(line) ?? [];
    return path === "" ? [] : [{ path, message }];
  });
}
