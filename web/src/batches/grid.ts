// The results of a batch as a grid: a row for each item, a column for each field. No I/O.
import { memberPath, parsed, type Json } from "../extraction/fields.js";

/** Maximum number of columns of fields. */
export const COLUMNS_MAX = 12;
const CELL_MAX = 200;

/** Returns the fields of the results, in the order of their first occurrence. */
export function columnsOf(results: Iterable<Json | undefined>): string[] {
  const names = new Set<string>();
  for (const result of results) for (const name of Object.keys(objectOf(result))) names.add(name);
  return [...names].slice(0, COLUMNS_MAX);
}

/** Returns the text of a field of a result. Empty: the field is absent or null. */
export function cellOf(result: Json | undefined, name: string): string {
  const fields = objectOf(result);
  const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (value === undefined || value === null) return "";
  const characters = [...(typeof value === "object" ? JSON.stringify(value) : String(value))];
  return characters.length > CELL_MAX ? `${characters.slice(0, CELL_MAX).join("")}…` : characters.join("");
}

/** Returns the id of the extraction of an item. Empty: the item has no result. */
export function extractionIdOf(resultJson: string): string {
  const id = objectOf(parsed(resultJson))["extraction_id"];
  return typeof id === "string" ? id : "";
}

/** Returns true if the subject of an item is a document. */
export function isDocument(subject: string): boolean {
  return subject.startsWith("doc_");
}

/**
 * Returns the address of the extraction of an item, or of the citation of one of its fields. Without a result: of the document.
 * `field`: the name of a column; empty: no field.
 */
export function evidencePath(documentId: string, resultJson: string, field = ""): string {
  const extraction = extractionIdOf(resultJson);
  const path = `/documents/${encodeURIComponent(documentId)}`;
  if (extraction === "") return path;
  const parameters = field === "" ? { extraction } : { extraction, field: memberPath("", field) };
  return `${path}?${new URLSearchParams(parameters).toString()}`;
}

function objectOf(value: Json | undefined): Record<string, Json> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, Json>) : {};
}
