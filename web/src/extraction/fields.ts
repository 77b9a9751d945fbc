// The values of an extraction as a tree of fields with the types of the schema. No I/O.
import type { v1 } from "folio-client";

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** The part of a JSON Schema (draft 7) that the panel reads. Each member may have any type: the schema comes from outside. */
interface SchemaNode {
  readonly type?: unknown;
  readonly title?: unknown;
  readonly description?: unknown;
  readonly enum?: unknown;
  readonly format?: unknown;
  readonly properties?: unknown;
  readonly required?: unknown;
  readonly items?: unknown;
  readonly minimum?: unknown;
  readonly maximum?: unknown;
  readonly maxLength?: unknown;
  readonly pattern?: unknown;
}

export type ValueType = "string" | "number" | "integer" | "boolean" | "json";

/** A field with its value. */
export interface Field {
  /** The path, as the server writes it: `items[0].price`. */
  readonly path: string;
  readonly label: string;
  readonly description: string;
  readonly kind: "object" | "array" | "value";
  readonly type: ValueType;
  readonly isRequired: boolean;
  readonly isNullable: boolean;
  /** The values that the schema permits. Empty: any value of the type. */
  readonly choices: readonly Json[];
  readonly schema: SchemaNode;
  /** Undefined: the data has no value at the path. */
  readonly value: Json | undefined;
  readonly children: readonly Field[];
}

/** Maximum depth of a tree: the server nests JSON at most 64 levels deep. */
const DEPTH_MAX = 64;
const PLAIN_NAME = /^[^.[\]"]+$/;

/** Returns the path of a member. An unusual name is in quotation marks. */
export function memberPath(parent: string, name: string): string {
  const written = PLAIN_NAME.test(name) ? name : `"${name.replace(/["\\]/g, "\\$&")}"`;
  return parent === "" ? written : `${parent}.${written}`;
}

/** Returns the path of an element. */
export function elementPath(parent: string, index: number): string {
  return `${parent}[${index}]`;
}

/** Returns the current data of an extraction. Undefined: the data is no JSON. */
export function dataOf({ editedJson, originalJson }: Pick<v1.Extraction, "editedJson" | "originalJson">): Json | undefined {
  return parsed(editedJson ?? originalJson);
}

/** Parses JSON. Undefined: invalid. */
export function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Returns the JSON Schema of a response format. Undefined: the response format has none. */
export function schemaOf(responseFormatJson: string): SchemaNode | undefined {
  const format = parsed(responseFormatJson) as { json_schema?: { schema?: unknown } } | null | undefined;
  return node(format?.json_schema?.schema);
}

/** Returns the fields of the data, in the order of the schema, and then those that the schema does not name. */
export function fieldsOf(data: Json | undefined, schema: SchemaNode | undefined): readonly Field[] {
  return fieldOf("", "", data, schema ?? {}, true, 0).children;
}

function fieldOf(path: string, label: string, value: Json | undefined, schema: SchemaNode, isRequired: boolean, depth: number): Field {
  const types = typesOf(schema);
  const kind = kindOf(value, types);
  const title = typeof schema.title === "string" && schema.title !== "" ? schema.title : label;
  return {
    path,
    label: title,
    description: typeof schema.description === "string" ? schema.description : "",
    kind,
    type: valueType(value, types),
    isRequired,
    isNullable: types.includes("null"),
    choices: Array.isArray(schema.enum) ? (schema.enum as Json[]) : [],
    schema,
    value,
    children: depth >= DEPTH_MAX ? [] : children(path, kind, value, schema, depth + 1),
  };
}

function children(path: string, kind: Field["kind"], value: Json | undefined, schema: SchemaNode, depth: number): Field[] {
  if (kind === "object") {
    const properties = record(schema.properties);
    const members = isObject(value) ? value : {};
    const required = Array.isArray(schema.required) ? schema.required : [];
    const names = [...new Set([...Object.keys(properties), ...Object.keys(members)])];
    return names.map((name) => {
      const member = Object.hasOwn(members, name) ? members[name] : undefined;
      return fieldOf(memberPath(path, name), name, member, node(properties[name]) ?? {}, required.includes(name), depth);
    });
  }
  if (kind === "array" && Array.isArray(value)) {
    const items = node(schema.items) ?? {};
    return value.map((element: Json, index) => fieldOf(elementPath(path, index), String(index + 1), element, items, true, depth));
  }
  return [];
}

function kindOf(value: Json | undefined, types: readonly string[]): Field["kind"] {
  if (Array.isArray(value)) return "array";
  if (isObject(value)) return "object";
  if (value !== undefined && value !== null) return "value";
  return value === undefined && types.includes("object") ? "object" : "value";
}

function valueType(value: Json | undefined, types: readonly string[]): ValueType {
  for (const type of ["integer", "number", "boolean", "string"] as const) if (types.includes(type)) return type;
  if (types.length > 0) return "json";
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return typeof value as ValueType;
  return "json";
}

function typesOf({ type }: SchemaNode): readonly string[] {
  if (typeof type === "string") return [type];
  return Array.isArray(type) ? type.filter((one) => typeof one === "string") : [];
}

/** Returns the columns of an array of objects without deeper values, which is shown as a table. Undefined: it is a list. */
export function columnsOf(field: Field): readonly string[] | undefined {
  if (field.kind !== "array" || field.children.length === 0) return undefined;
  const isFlat = field.children.every(({ kind, children }) => kind === "object" && children.every((child) => child.kind === "value"));
  if (!isFlat) return undefined;
  return [...new Set(field.children.flatMap(({ children }) => children.map(({ label }) => label)))];
}

/** Returns the values of a tree that have no further values, in order. */
export function leaves(fields: readonly Field[]): Field[] {
  return fields.flatMap((field) => (field.children.length > 0 ? leaves(field.children) : [field]));
}

/** Returns true if two JSON values are equal. */
export function isEqual(a: Json | undefined, b: Json | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function isObject(value: unknown): value is { readonly [name: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

function node(value: unknown): SchemaNode | undefined {
  return isObject(value) ? (value as SchemaNode) : undefined;
}
