// The columns that a model proposes for a table: each member may be missing or have another type. No I/O.
import { parsed, type Json } from "../extraction/fields.js";
import { member } from "./steps.js";

/** Maximum number of columns of a table. */
const COLUMNS_MAX = 64;

/** A proposed column as texts for people. */
export interface ProposedColumn {
  readonly name: string;
  /** The type with the unit and the permitted values, such as `number in EUR, required`. */
  readonly type: string;
  readonly description: string;
}

/** Returns the columns of the arguments of `define_columns`. Empty: the arguments have another form. */
export function columnsOf(argumentsJson: string): ProposedColumn[] {
  const value = member(parsed(argumentsJson), "columns");
  // Models also write the list as a text.
  const columns = typeof value === "string" ? parsed(value) : value;
  return Array.isArray(columns) ? (columns as readonly Json[]).slice(0, COLUMNS_MAX).map(columnOf) : [];
}

function columnOf(column: Json): ProposedColumn {
  const unit = textOf(member(column, "unit"));
  const values = member(column, "enum");
  const parts = [
    textOf(member(column, "type")) + (unit === "" ? "" : ` in ${unit}`),
    ...(Array.isArray(values) ? [`one of ${(values as readonly Json[]).map(textOf).join(", ")}`] : []),
    ...(member(column, "required") === true ? ["required"] : []),
  ];
  return { name: textOf(member(column, "name")), type: parts.join(", "), description: textOf(member(column, "description")) };
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
