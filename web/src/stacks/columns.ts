// The columns of a table as they are edited. No I/O.
import { v1 } from "folio-client";

export const COLUMNS_MAX = 64;
export const NAME_MAX = 100;
export const DESCRIPTION_MAX = 1_000;
export const UNIT_MAX = 50;
export const VALUES_MAX = 100;
export const VALUE_MAX = 200;

/** A column as it is edited. `key`: identifies it in the form. */
export interface ColumnDraft extends Pick<v1.StackColumn, "name" | "type" | "description" | "required" | "unit"> {
  readonly key: string;
  readonly enumValues: readonly string[];
}

export function draftOf({ name, type, description, required, unit, enumValues }: v1.StackColumn, index: number): ColumnDraft {
  return { key: `stored ${index}`, name, type, description, required, unit, enumValues: [...enumValues] };
}

export function newColumn(key: string): ColumnDraft {
  return { key, name: "", type: v1.StackColumnType.TEXT, description: "", required: false, unit: "", enumValues: [] };
}

/** Returns the columns of a request. */
export function columnsOf(drafts: readonly ColumnDraft[]) {
  return drafts.map(({ name, type, description, required, unit, enumValues }) => ({
    name: name.trim(),
    type,
    description: description.trim(),
    required,
    unit: unit.trim(),
    enumValues: type === v1.StackColumnType.ENUM ? [...enumValues] : [],
  }));
}

/** Returns the problem of the columns. Empty: they are valid. The server checks them, too. */
export function problemOf(drafts: readonly ColumnDraft[]): string {
  const names = drafts.map(({ name }) => name.trim().toLowerCase());
  if (names.includes("")) return "A column has no name.";
  if (new Set(names).size < names.length) return "Two columns have the same name.";
  if (drafts.length > COLUMNS_MAX) return `A table has at most ${COLUMNS_MAX} columns.`;
  const isMissing = drafts.some(({ type, enumValues }) => type === v1.StackColumnType.ENUM && enumValues.length === 0);
  return isMissing ? "A column with the type “One of values” has no values." : "";
}

/** Returns the columns with one of them moved by a step. */
export function moved<T>(all: readonly T[], index: number, step: 1 | -1): T[] {
  const [item, other] = [all[index], all[index + step]];
  if (item === undefined || other === undefined) return [...all];
  return all.map((one, at) => (at === index ? other : at === index + step ? item : one));
}
