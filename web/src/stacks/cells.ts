// The cells of a table: their texts, states and links, and the values that are typed. No I/O.
import { v1 } from "folio-client";
import { boxLink } from "../document/box_link.js";
import { parsed } from "../extraction/fields.js";
import { isDate } from "../format.js";

/** Maximum size of a value as JSON, in bytes. */
export const VALUE_BYTES_MAX = 8 * 1024;

const { EMPTY, FILLED, EDITED, APPROVED, REJECTED } = v1.StackCellState;
const { TEXT, NUMBER, INTEGER, BOOLEAN, DATE, ENUM } = v1.StackColumnType;

/** The states of cells with their names in a filter. */
export const STATES: readonly { readonly state: v1.StackCellState; readonly name: string; readonly label: string; readonly color: string }[] = [
  { state: EMPTY, name: "empty", label: "Empty", color: "gray" },
  { state: FILLED, name: "filled", label: "Filled", color: "blue" },
  { state: EDITED, name: "edited", label: "Edited", color: "yellow" },
  { state: APPROVED, name: "approved", label: "Approved", color: "green" },
  { state: REJECTED, name: "rejected", label: "Rejected", color: "red" },
];

/** Returns the text and the color of the state of a cell. `cell`: undefined if the column was not filled. */
export function stateOf(cell: v1.StackCell | undefined): { readonly label: string; readonly color: string } {
  const known = STATES.find(({ state }) => state === cell?.state);
  return known ?? { label: "Not filled", color: "gray" };
}

/** The types of columns. */
export const TYPES: readonly { readonly type: v1.StackColumnType; readonly label: string }[] = [
  { type: TEXT, label: "Text" },
  { type: NUMBER, label: "Number" },
  { type: INTEGER, label: "Whole number" },
  { type: BOOLEAN, label: "Yes or no" },
  { type: DATE, label: "Date" },
  { type: ENUM, label: "One of values" },
];

/** Returns the text of a value in the editor. Empty: no value. */
export function textOf(valueJson: string | undefined): string {
  if (valueJson === undefined || valueJson === "") return "";
  const value = parsed(valueJson);
  if (value === null) return "";
  // A number is shown as the server wrote it: a double could change its digits.
  return typeof value === "string" ? value : valueJson;
}

/** Returns the text of a cell for people. Empty: it has no value. */
export function cellText(cell: v1.StackCell | undefined): string {
  const text = textOf(cell?.valueJson);
  return text === "true" && cell?.valueJson === "true" ? "Yes" : text === "false" && cell?.valueJson === "false" ? "No" : text;
}

/** Returns the cell of a column. Undefined: the column was not filled. */
export function cellOf(row: Pick<v1.StackRow, "cells">, column: string): v1.StackCell | undefined {
  return row.cells.find((cell) => cell.column === column);
}

/** Returns the address of the evidence of a cell: the quote on its page. Undefined: the cell has none. */
export function evidenceLink({ documentId }: Pick<v1.StackRow, "documentId">, { citation }: Pick<v1.StackCell, "citation">): string | undefined {
  if (citation === undefined) return undefined;
  const boxes = citation.boxes.map(({ left, top, right, bottom }) => ({ left, top, right, bottom }));
  return boxLink(documentId, Math.max(citation.page, 1), boxes, boxes.length > 0 ? "" : citation.quote);
}

/** A valid value as JSON, or the problem of the text. An empty JSON text removes the value. */
export type TypedValue = { readonly json: string } | { readonly problem: string };

/** Returns the value of a text in the type of a column. A blank text removes the value. */
export function valueOf({ type, enumValues }: Pick<v1.StackColumn, "type" | "enumValues">, text: string): TypedValue {
  const typed = text.trim();
  if (typed === "") return { json: "" };
  const read = ofType(type, enumValues, typed);
  if ("json" in read && new TextEncoder().encode(read.json).length > VALUE_BYTES_MAX) return { problem: "The value is longer than 8 KiB." };
  return read;
}

function ofType(type: v1.StackColumnType, enumValues: readonly string[], text: string): TypedValue {
  switch (type) {
    case NUMBER:
      return /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? { json: text } : { problem: "Enter a number with a decimal point, such as 1234.5." };
    case INTEGER:
      return /^-?(0|[1-9]\d*)$/.test(text) ? { json: text } : { problem: "Enter a whole number." };
    case BOOLEAN:
      return text === "true" || text === "false" ? { json: text } : { problem: "Choose yes or no." };
    case DATE:
      return isDate(text) ? { json: JSON.stringify(text) } : { problem: "Enter a date as YYYY-MM-DD." };
    case ENUM:
      return enumValues.includes(text) ? { json: JSON.stringify(text) } : { problem: "Choose one of the values of the column." };
    default:
      return { json: JSON.stringify(text) };
  }
}

/** Returns the number of cells of a row that wait for a decision. */
export function waitingCells({ cells }: Pick<v1.StackRow, "cells">): number {
  return cells.filter(({ waiting }) => waiting).length;
}
