// The texts of values in the editor, with the checks that need no server. No I/O.
import { isDate } from "../format.js";
import { parsed, type Field, type Json } from "./fields.js";

/** Maximum size of a value in bytes, as in `UpdateExtractionField`. */
export const VALUE_BYTES_MAX = 96 * 1024;

/** The value of a valid text, or the problem of the text. */
export type Parsed = { readonly value: Json } | { readonly problem: string };

/** Returns the text of a value in the editor. */
export function textOf(value: Json | undefined, type: Field["type"]): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string" && type !== "json") return value;
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

/** Returns the value of a text. An empty text of a field that may be null is null. */
export function valueOf(field: Field, text: string): Parsed {
  if (new TextEncoder().encode(text).length > VALUE_BYTES_MAX) return { problem: "The value is longer than 96 KiB." };
  if (text.trim() === "" && field.isNullable) return { value: null };
  const read = typed(field, text);
  return "problem" in read ? read : checked(field, read.value);
}

function typed(field: Field, text: string): Parsed {
  if (field.choices.length > 0) {
    const choice = field.choices.find((choice) => textOf(choice, field.type) === text);
    return choice === undefined ? { problem: "Choose one of the values of the schema." } : { value: choice };
  }
  switch (field.type) {
    case "string":
      return { value: text };
    case "boolean":
      return text === "true" || text === "false" ? { value: text === "true" } : { problem: "Choose yes or no." };
    case "integer":
    case "number":
      return number(field.type, text.trim());
    case "json": {
      const value = parsed(text);
      return value === undefined ? { problem: "The text is not valid JSON." } : { value };
    }
  }
}

function number(type: "integer" | "number", text: string): Parsed {
  const value = parsed(text);
  if (typeof value !== "number" || !Number.isFinite(value)) return { problem: "Enter a number with a decimal point, such as 1234.5." };
  if (type === "integer" && !Number.isInteger(value)) return { problem: "Enter a whole number." };
  return { value };
}

/** Checks a value against the bounds in the schema of its own field. The server checks the whole data. */
function checked({ schema }: Field, value: Json): Parsed {
  if (typeof value === "number") {
    if (typeof schema.minimum === "number" && value < schema.minimum) return { problem: `The minimum is ${schema.minimum}.` };
    if (typeof schema.maximum === "number" && value > schema.maximum) return { problem: `The maximum is ${schema.maximum}.` };
  }
  if (typeof value === "string") {
    const length = [...value].length;
    if (typeof schema.maxLength === "number" && length > schema.maxLength) return { problem: `Enter at most ${schema.maxLength} characters.` };
    if (schema.format === "date" && !isDate(value)) return { problem: "Enter a date as YYYY-MM-DD." };
  }
  return { value };
}
