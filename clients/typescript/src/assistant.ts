// Questions to the assistant, and their typed answers. No I/O.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { FolioError } from "./errors.js";
import * as v1 from "./gen/v1.js";
import type { StreamOptions } from "./rejoined.js";

/** Options of a question. */
export type QuestionOptions = Pick<
  MessageInitShape<typeof v1.ChatRequestSchema>,
  "documentIds" | "threadId" | "model" | "creditBudget" | "requestId"
> &
  StreamOptions & {
    /** Only documents with all of these tags. */
    readonly tagIds?: readonly string[] | undefined;
    /** Only documents in any of these collections. */
    readonly collectionIds?: readonly string[] | undefined;
  };

/** An answer of the assistant. */
export interface Answer {
  /** `AnswerResponse`, `SummarizationResponse` or `CalculationResponse`. */
  readonly type: string;
  /** The members of the type, with `sources` and `passages`. */
  readonly value: Record<string, unknown>;
  /** The answer as a text. */
  readonly text: string;
  /** The conversation, for a further question. */
  readonly threadId: string;
  readonly turnId: string;
  /** The charged credits of all model calls. */
  readonly credits: bigint;
}

/** Returns the mentions of a question. */
export function mentionsOf({ tagIds = [], collectionIds = [] }: QuestionOptions): v1.Mention[] {
  const tags = tagIds.map((value) => create(v1.MentionSchema, { target: { case: "tagId", value } }));
  const collections = collectionIds.map((value) => create(v1.MentionSchema, { target: { case: "collectionId", value } }));
  return [...tags, ...collections];
}

/** Returns the answer of a completed turn. */
export function answerOf(completed: v1.Completed, threadId: string, turnId: string): Answer {
  if (completed.answerJson === "") throw new FolioError("FAILED_PRECONDITION", "", "the turn has no typed answer");
  return {
    type: completed.answerType,
    value: JSON.parse(completed.answerJson) as Record<string, unknown>,
    text: completed.text,
    threadId,
    turnId,
    credits: completed.usage?.credits ?? 0n,
  };
}
