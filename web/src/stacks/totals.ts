// Questions about all rows of a table, and the texts of their answers. No I/O.
import { v1 } from "folio-client";
import { textOf, valueOf } from "./cells.js";

/** Maximum number of columns that group the rows. */
export const GROUP_COLUMNS_MAX = 4;

const { COUNT, SUM, AVERAGE, MIN, MAX } = v1.TableFunction;
const { NUMBER, INTEGER, DATE } = v1.StackColumnType;

/** The functions with the types of columns that they accept. Undefined: every type, and the rows themselves. */
export const FUNCTIONS: readonly { readonly function: v1.TableFunction; readonly name: string; readonly label: string; readonly types?: readonly v1.StackColumnType[] }[] = [
  { function: COUNT, name: "count", label: "Number" },
  { function: SUM, name: "sum", label: "Sum", types: [NUMBER, INTEGER] },
  { function: AVERAGE, name: "average", label: "Average", types: [NUMBER, INTEGER] },
  { function: MIN, name: "min", label: "Minimum", types: [NUMBER, INTEGER, DATE] },
  { function: MAX, name: "max", label: "Maximum", types: [NUMBER, INTEGER, DATE] },
];

/** A question about a table. */
export interface TotalsQuestion {
  /** The name of a function. */
  readonly name: string;
  /** Empty: the rows. */
  readonly column: string;
  readonly groupBy: readonly string[];
  readonly approvedOnly: boolean;
  /** The column that selects rows. Empty: all rows. */
  readonly filterColumn: string;
  /** The value of the selected rows as a text. Blank: rows without a value. */
  readonly filterText: string;
}

/** The part of a column that a question needs. */
type QuestionColumn = Pick<v1.StackColumn, "name" | "type" | "enumValues">;

export const COUNT_ROWS: TotalsQuestion = { name: "count", column: "", groupBy: [], approvedOnly: false, filterColumn: "", filterText: "" };

/** Returns the columns that a function accepts. */
export function columnsFor(name: string, columns: readonly Pick<v1.StackColumn, "name" | "type">[]): string[] {
  const types = FUNCTIONS.find((known) => known.name === name)?.types;
  return columns.filter(({ type }) => types === undefined || types.includes(type)).map((column) => column.name);
}

/** Returns the question with another function. A column that the function does not accept is no longer chosen. */
export function withFunction(question: TotalsQuestion, name: string, columns: readonly Pick<v1.StackColumn, "name" | "type">[]): TotalsQuestion {
  return { ...question, name, column: columnsFor(name, columns).includes(question.column) ? question.column : "" };
}

/** Returns true if the server can answer: only the number of rows needs no column. */
export function isComplete({ name, column }: TotalsQuestion): boolean {
  return column !== "" || name === COUNT_ROWS.name;
}

/** Returns the problem of the value that selects rows. Empty: it is valid. */
export function filterProblem({ filterColumn, filterText }: TotalsQuestion, columns: readonly QuestionColumn[]): string {
  const column = columns.find((one) => one.name === filterColumn);
  const value = column && valueOf(column, filterText);
  return value !== undefined && "problem" in value ? value.problem : "";
}

/** Returns the request without the id of the stack. */
export function requestOf({ name, column, groupBy, approvedOnly, filterColumn, filterText }: TotalsQuestion, columns: readonly QuestionColumn[]) {
  const found = FUNCTIONS.find((known) => known.name === name)?.function ?? COUNT;
  const filtered = columns.find((one) => one.name === filterColumn);
  const value = filtered && valueOf(filtered, filterText);
  // The server refuses a column that the table no longer has, and a value of another type.
  const json = value !== undefined && "json" in value ? value.json : JSON.stringify(filterText);
  const filter = filterColumn === "" ? {} : { [filterColumn]: json || "null" };
  return { aggregates: [{ function: found, column }], groupBy: [...groupBy], approvedOnly, filter };
}

/** Returns the heading of the results. */
export function headingOf({ name, column }: TotalsQuestion): string {
  const label = FUNCTIONS.find((known) => known.name === name)?.label ?? name;
  return column === "" ? label : `${label} of ${column}`;
}

/** Returns the text of a value that groups rows. */
export function keyText(keyJson: string): string {
  if (keyJson === "true") return "Yes";
  if (keyJson === "false") return "No";
  return textOf(keyJson) || "No value";
}

/** Returns the text of a result. The number has the digits of the server. */
export function resultText(result: Pick<v1.TableAggregateValue, "value" | "exact" | "unit"> | undefined): string {
  if (result === undefined || result.value === "") return "No value";
  const unit = result.unit === "" ? "" : ` ${result.unit}`;
  return `${result.value}${unit}${result.exact ? "" : " (rounded)"}`;
}
