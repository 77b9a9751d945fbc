// The positions of problems in a text of JSON. No I/O.
import { jsonLanguage } from "@codemirror/lang-json";
import type { Diagnostic } from "@codemirror/lint";
import type { SyntaxNode } from "@lezer/common";

/** A problem of a value. */
export interface JsonProblem {
  /** The JSON pointer of the value, such as `#/items/0/total`. `#`: the whole text. */
  readonly path: string;
  readonly message: string;
}

const VALUES = ["Object", "Array", "String", "Number", "True", "False", "Null"];

/** Returns the marks of problems. A problem of a missing value is at the nearest value that contains its place. */
export function diagnosticsOf(text: string, problems: readonly JsonProblem[]): Diagnostic[] {
  const root = jsonLanguage.parser.parse(text).topNode;
  const marks = problems.map(({ path, message }): Diagnostic => ({ ...rangeOf(root, text, path), severity: "error", message }));
  const syntax = firstError(root);
  return syntax === undefined ? marks : [{ ...visible(syntax, text), severity: "error", message: "The text is not valid JSON here." }, ...marks];
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Returns the range of the value at a pointer, or of the nearest one that contains it. */
function rangeOf(root: SyntaxNode, text: string, path: string): Range {
  let value = valueIn(root);
  for (const segment of segmentsOf(path)) {
    const child = value === undefined ? undefined : childOf(value, text, segment);
    if (child === undefined) break;
    value = child;
  }
  if (value === undefined) return visible(root, text);
  // A mark of a whole object would cover the editor: its first character suffices.
  return value.name === "Object" || value.name === "Array" ? { from: value.from, to: Math.min(value.from + 1, text.length) } : { from: value.from, to: value.to };
}

function segmentsOf(path: string): string[] {
  return path.split("/").slice(1).map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function valueIn(node: SyntaxNode): SyntaxNode | undefined {
  return childrenOf(node).find(({ name }) => VALUES.includes(name));
}

function childOf(value: SyntaxNode, text: string, segment: string): SyntaxNode | undefined {
  if (value.name === "Array") return childrenOf(value).filter(({ name }) => VALUES.includes(name))[Number(segment)];
  const member = childrenOf(value).find((property) => {
    const name = property.getChild("PropertyName");
    return name !== null && nameOf(text.slice(name.from, name.to)) === segment;
  });
  return member === undefined ? undefined : valueIn(member) ?? member;
}

function nameOf(quoted: string): string | undefined {
  try {
    const name: unknown = JSON.parse(quoted);
    return typeof name === "string" ? name : undefined;
  } catch {
    return undefined;
  }
}

function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (let child = node.firstChild; child !== null; child = child.nextSibling) children.push(child);
  return children;
}

function firstError(root: SyntaxNode): Range | undefined {
  let found: Range | undefined;
  root.cursor().iterate(({ type, from, to }) => {
    if (found === undefined && type.isError) found = { from, to };
    return found === undefined;
  });
  return found;
}

/** Returns a range with at least one character, if the text has one, so that its mark is visible. */
function visible({ from, to }: Range, text: string): Range {
  if (to > from) return { from, to };
  return from < text.length ? { from, to: from + 1 } : { from: Math.max(0, from - 1), to: from };
}
