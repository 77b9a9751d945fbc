// The properties of a JSON Schema as rows that the visual editor changes. No I/O.
import { parsed, type Json } from "../extraction/fields.js";

export const KINDS = ["text", "number", "integer", "yes or no", "date", "group", "list of texts", "list of groups"] as const;
export type Kind = (typeof KINDS)[number];

/** An object of a JSON Schema. */
export type Node = { readonly [name: string]: Json };

/** A property in the visual editor. */
export interface Property {
  readonly name: string;
  /** Undefined: the editor does not know the type, and leaves it unchanged. */
  readonly kind: Kind | undefined;
  readonly description: string;
  readonly node: Node;
  /** The object with the properties below this one. Undefined: none. */
  readonly nested: Node | undefined;
}

const EMPTY: Node = { type: "object", properties: {}, required: [], additionalProperties: false };
const NODES: Readonly<Record<Kind, Node>> = {
  text: { type: "string" },
  number: { type: "number" },
  integer: { type: "integer" },
  "yes or no": { type: "boolean" },
  date: { type: "string", format: "date" },
  group: EMPTY,
  "list of texts": { type: "array", items: { type: "string" } },
  "list of groups": { type: "array", items: EMPTY },
};

/** Returns the response format of a schema. */
export function formatOf(name: string, schema: Node): string {
  const safe = name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64) || "schema";
  return JSON.stringify({ type: "json_schema", json_schema: { name: safe, schema, strict: true } }, null, 2);
}

export const NEW_FORMAT = formatOf("schema", EMPTY);

/** Returns the JSON Schema of a response format. Undefined: the text has none that is an object. */
export function schemaIn(format: string): Node | undefined {
  const value = parsed(format);
  const inner = object(value)?.["json_schema"];
  return object(object(inner)?.["schema"]);
}

/** Returns the response format with another JSON Schema. */
export function withSchema(format: string, schema: Node): string {
  const value = object(parsed(format)) ?? {};
  const inner = object(value["json_schema"]) ?? {};
  return JSON.stringify({ ...value, json_schema: { ...inner, schema } }, null, 2);
}

/** Returns the properties of an object in their order. */
export function propertiesOf(schema: Node): Property[] {
  return Object.entries(object(schema["properties"]) ?? {}).map(([name, value]) => {
    const node = object(value) ?? {};
    const kind = kindOf(node);
    const nested = kind === "group" ? node : kind === "list of groups" ? object(node["items"]) : undefined;
    return { name, kind, description: typeof node["description"] === "string" ? node["description"] : "", node, nested };
  });
}

/** Returns the object with other properties. Each of them is required and no other one is allowed, as models need it. */
export function withProperties(schema: Node, properties: readonly Property[]): Node {
  const entries = properties.map(({ name, node }) => [name, node] as const);
  return { ...schema, type: "object", properties: Object.fromEntries(entries), required: [...new Set(entries.map(([name]) => name))], additionalProperties: false };
}

/** Returns a property after a change. */
export function changed(property: Property, changes: Partial<Pick<Property, "name" | "kind" | "description" | "nested">>): Property {
  const next = { ...property, ...changes };
  const described = (node: Node): Node => {
    const { description: _, ...rest } = node;
    return next.description === "" ? rest : { ...rest, description: next.description };
  };
  if (changes.kind !== undefined && changes.kind !== property.kind) {
    const node = NODES[changes.kind];
    const nested = changes.kind === "group" || changes.kind === "list of groups" ? EMPTY : undefined;
    return { ...next, node: described(node), nested };
  }
  if (changes.nested !== undefined) {
    const node = property.kind === "list of groups" ? { ...property.node, items: changes.nested } : { ...property.node, ...changes.nested };
    return { ...next, node: described(node) };
  }
  return { ...next, node: described(property.node) };
}

/** Returns a new property with a name that the others do not have. */
export function newProperty(others: readonly Property[]): Property {
  let number = others.length + 1;
  while (others.some(({ name }) => name === `field_${number}`)) number += 1;
  return { name: `field_${number}`, kind: "text", description: "", node: NODES.text, nested: undefined };
}

function kindOf(node: Node): Kind | undefined {
  const items = object(node["items"]);
  if ("enum" in node || "anyOf" in node || "$ref" in node) return undefined;
  switch (node["type"]) {
    case "string": return node["format"] === "date" ? "date" : node["format"] === undefined ? "text" : undefined;
    case "number": return "number";
    case "integer": return "integer";
    case "boolean": return "yes or no";
    case "object": return "group";
    case "array": return items?.["type"] === "string" ? "list of texts" : items?.["type"] === "object" ? "list of groups" : undefined;
    default: return undefined;
  }
}

function object(value: Json | undefined): Node | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Node) : undefined;
}
