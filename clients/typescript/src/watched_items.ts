// The items of a watch across all its streams. No I/O.
import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import * as v1 from "./gen/v1.js";

/** A response of a watch. */
export type WatchResponse = v1.WatchInboxResponse | v1.WatchPendingApprovalsResponse | v1.WatchDocumentResponse;

/** For each response: its schema, the case of an item, the field of its id, and the case of a removed id. */
const FIELDS: Record<WatchResponse["$typeName"], readonly [DescMessage, string, string, string]> = {
  "folio.v1.WatchInboxResponse": [v1.WatchInboxResponseSchema, "item", "itemId", "removedItemId"],
  "folio.v1.WatchPendingApprovalsResponse": [
    v1.WatchPendingApprovalsResponseSchema,
    "pendingApproval",
    "turnId",
    "removedTurnId",
  ],
  "folio.v1.WatchDocumentResponse": [
    v1.WatchDocumentResponseSchema,
    "extraction",
    "extractionId",
    "removedExtractionId",
  ],
};

/**
 * Completes the changes of a new stream. A stream starts with all items. Items of the stream before that the new one does not
 * send until `caughtUp` were removed while no stream was open, which the new stream does not state.
 */
export class WatchedItems<W extends WatchResponse> {
  readonly #items = new Set<string>();
  #unconfirmed = new Set<string>();

  startStream(): void {
    this.#unconfirmed = new Set(this.#items);
  }

  /** Returns the changes to report for a change of the stream. */
  apply(response: W): W[] {
    const [schema, item, id, removed] = FIELDS[response.$typeName];
    const change = response.change as { case: string | undefined; value: unknown };
    if (change.case === item) {
      const identifier = (change.value as Record<string, string>)[id] ?? "";
      this.#items.add(identifier);
      this.#unconfirmed.delete(identifier);
    } else if (change.case === removed) {
      this.#items.delete(change.value as string);
      this.#unconfirmed.delete(change.value as string);
    } else if (change.case === "caughtUp") {
      const missing = [...this.#unconfirmed].sort();
      this.#unconfirmed.clear();
      for (const identifier of missing) this.#items.delete(identifier);
      const removal = (value: string) =>
        create(schema, { change: { case: removed, value } } as MessageInitShape<DescMessage>) as unknown as W;
      return [...missing.map(removal), response];
    }
    return [response];
  }
}
