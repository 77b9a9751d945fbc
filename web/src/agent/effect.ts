// Texts of the effect of a tool call. No I/O.
import { v1 } from "folio-client";
import { parsed } from "../extraction/fields.js";

const { UNKNOWN, CREATES, UPDATES, DELETES, NOTHING } = v1.CallEffect;

/** Returns the sentence about the effect, such as `Updates the schema “Invoice”.` */
export function effectSentence({ effect, targetKind, targetName }: Pick<v1.PreviewToolCallResponse, "effect" | "targetKind" | "targetName">): string {
  const kind = targetKind === "" ? "resource" : targetKind.replaceAll("_", " ");
  const target = targetName === "" ? kind : `${kind} “${targetName}”`;
  switch (effect) {
    case CREATES: return `Creates the ${target}.`;
    case UPDATES: return `Updates the ${target}.`;
    case DELETES: return `Deletes the ${target}.`;
    case NOTHING: return "Changes nothing.";
    case UNKNOWN:
    default: return "The effect is known only when the call runs.";
  }
}

/** Returns the sentence about the affected resources of a kind, such as `Affects 3 prompts.` Empty: none. */
export function affectedSentence(affected: v1.AffectedResources | undefined, kind: string): string {
  const { count = 0n, hasMore = false } = affected ?? {};
  if (count === 0n && !hasMore) return "";
  return `Affects ${hasMore ? "more than " : ""}${count} ${kind}${count === 1n && !hasMore ? "" : "s"}.`;
}

/** Returns the lines of a value that are compared. A JSON text is its content, so that its lines differ one by one. */
export function linesOfValue(json: string): string {
  const value = parsed(json);
  if (value === undefined) return json;
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  const inner = parsed(value);
  return typeof inner === "object" && inner !== null ? JSON.stringify(inner, null, 2) : value;
}
