// The statements of an extraction about a value: citation, confidence, decision. No I/O.
import { v1 } from "folio-client";
import { dataOf, fieldsOf, isEqual, leaves, parsed, type Field } from "./fields.js";

export interface Evidence {
  readonly citation: v1.Citation | undefined;
  /** Between 0 and 1. Undefined: the model stated none, or the value was changed. */
  readonly confidence: number | undefined;
  readonly review: v1.FieldReview | undefined;
}

/** Returns the evidence by the path of each value. Citations and confidences of a changed value do not apply to it. */
export function evidenceOf(extraction: v1.Extraction, fields: readonly Field[]): ReadonlyMap<string, Evidence> {
  const original = parsed(extraction.originalJson);
  const isEdited = extraction.editedJson !== undefined && !isEqual(dataOf(extraction), original);
  const citations = new Map(extraction.citations.map((citation) => [citation.path, citation]));
  const confidences = new Map(extraction.confidences.map(({ path, confidence }) => [path, confidence]));
  const reviews = new Map(extraction.reviews.map((review) => [review.path, review]));
  const originals = isEdited ? new Map(leaves(fieldsOf(original, undefined)).map(({ path, value }) => [path, value])) : undefined;
  return new Map(
    fields.map(({ path, value }) => {
      const isUnchanged = originals === undefined || isEqual(originals.get(path), value);
      return [
        path,
        {
          citation: isUnchanged ? citations.get(path) : undefined,
          confidence: isUnchanged ? confidences.get(path) : undefined,
          review: reviews.get(path),
        },
      ];
    }),
  );
}

/** Returns the citation of a field, or the first one of its parts. Undefined: it has none. */
export function citationOf(evidence: ReadonlyMap<string, Evidence>, path: string): v1.Citation | undefined {
  const isPart = (one: string) => one === path || one.startsWith(`${path}.`) || one.startsWith(`${path}[`);
  return [...evidence].find(([one, { citation }]) => citation !== undefined && isPart(one))?.[1].citation;
}

/** Returns the color of a confidence. */
export function confidenceColor(confidence: number): string {
  if (confidence >= 0.9) return "green";
  return confidence >= 0.6 ? "yellow" : "red";
}

export const isApproved = (review: v1.FieldReview | undefined) => review?.decision === v1.FieldDecision.APPROVED;
export const isRejected = (review: v1.FieldReview | undefined) => review?.decision === v1.FieldDecision.REJECTED;
