// The typed answers of the assistant. A model writes them, so that each member may be missing or have another type. No I/O.
import { boxLink } from "../document/box_link.js";
import { parsed, type Json } from "../extraction/fields.js";
import { member, type TypedAnswer } from "./steps.js";

/** Maximum number of sources, key points and passages that are shown. */
const ITEMS_MAX = 60;

/** A passage of a source that the agent retrieved. */
export interface SourcePassage {
  readonly documentId: string;
  readonly documentName: string;
  /** Undefined: unknown. */
  readonly page: number | undefined;
  readonly section: string;
  readonly quote: string;
}

/** A document that an answer names, with its passages. */
export interface Source {
  readonly documentId: string;
  /** Empty: no passage of the answer has the name. */
  readonly documentName: string;
  readonly passages: readonly SourcePassage[];
}

interface Common {
  readonly sources: readonly Source[];
  /** Between 0 and 1. Undefined: unknown. */
  readonly confidence: number | undefined;
  /** The time of the server. Undefined: unknown. */
  readonly time: Date | undefined;
}

export type Answer = Common & (
  | { readonly kind: "answer"; readonly question: string; readonly text: string }
  | { readonly kind: "summary"; readonly text: string; readonly keyPoints: readonly string[] }
  | { readonly kind: "calculation"; readonly formula: string; readonly expression: string; readonly result: string }
);

/** Returns an answer of one of the types of the assistant. Undefined: the type is another one, or the text is no JSON object. */
export function readAnswer({ type, json }: TypedAnswer): Answer | undefined {
  const value = parsed(json);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const text = (name: string) => textOf(member(value, name));
  const confidence = member(value, "confidence");
  const common = {
    sources: sourcesOf(texts(member(value, "sources")), list(member(value, "passages")).flatMap((one) => passageOf(one) ?? [])),
    confidence: typeof confidence === "number" && confidence >= 0 && confidence <= 1 ? confidence : undefined,
    time: timeOf(text("timestamp")),
  };
  switch (type) {
    case "AnswerResponse": return { kind: "answer", question: text("question"), text: text("answer"), ...common };
    case "SummarizationResponse": return { kind: "summary", text: text("summary"), keyPoints: texts(member(value, "key_points")), ...common };
    case "CalculationResponse": return { kind: "calculation", formula: text("formula"), expression: text("expression"), result: text("result"), ...common };
    default: return undefined;
  }
}

/** Returns the address of a passage: its page with the quote, whose words the document view highlights. */
export function sourceLink({ documentId, page, quote }: SourcePassage): string {
  return boxLink(documentId, page ?? 1, [], quote);
}

/** Returns the sources in their order, and then documents that only a passage names. */
function sourcesOf(ids: readonly string[], passages: readonly SourcePassage[]): Source[] {
  const all = [...new Set([...ids, ...passages.map(({ documentId }) => documentId)])];
  return all.map((documentId) => {
    const own = passages.filter((passage) => passage.documentId === documentId);
    return { documentId, documentName: own[0]?.documentName ?? "", passages: own };
  });
}

function passageOf(value: Json): SourcePassage | undefined {
  const documentId = textOf(member(value, "document_id"));
  if (documentId === "") return undefined;
  const page = member(value, "page");
  return {
    documentId,
    documentName: textOf(member(value, "document_name")),
    page: typeof page === "number" && Number.isInteger(page) && page > 0 ? page : undefined,
    section: textOf(member(value, "section")),
    quote: textOf(member(value, "quote")),
  };
}

function list(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]).slice(0, ITEMS_MAX) : [];
}

function texts(value: Json | undefined): string[] {
  return list(value).map((one) => textOf(one)).filter((text) => text !== "");
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

function timeOf(text: string): Date | undefined {
  const time = new Date(text);
  return text === "" || Number.isNaN(time.getTime()) ? undefined : time;
}
