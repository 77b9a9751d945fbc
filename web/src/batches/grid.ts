// The results of a batch as a grid: a row for each item, a column for each field. No I/O.
import { memberPath, parsed, type Json } from "../extraction/fields.js";

/** Number of columns of fields that are shown at first. */
export const SHOWN_FIRST = 12;
/** Maximum number of fields of which the columns are chosen. */
export const FIELDS_MAX = 100;
const CELL_MAX = 200;

/** Returns the fields of the results, in the order of their first occurrence. */
export function fieldsOf(results: Iterable<Json | undefined>): string[] {
  const names = new Set<string>();
  for (const result of results) for (const name of Object.keys(objectOf(result))) names.add(name);
  return [...names].slice(0, FIELDS_MAX);
}

/** Returns the shown fields in their order. `chosen`: undefined if the visitor has chosen none. */
export function columnsOf(fields: readonly string[], chosen: readonly string[] | undefined): string[] {
  return chosen === undefined ? fields.slice(0, SHOWN_FIRST) : fields.filter((field) => chosen.includes(field));
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
