// The position in a turn across all its streams. No I/O.
import { create } from "@bufbuild/protobuf";
import { errorOfMessage, FolioError } from "./errors.js";
import * as v1 from "./gen/v1.js";

const CLOSING = new Set(["awaitingApproval", "completed", "failed", "cancelled", "expired", "superseded"]);

/** The request that opens a stream of a turn. */
export type TurnRequest = v1.ChatRequest | v1.ResumeTurnRequest | v1.WatchTurnRequest;

/** Chooses the request that opens the next stream of a turn, and drops events that were received before. */
export class TurnPosition {
  turnId = "";
  threadId = "";
  lastEvent = 0n;
  closing: v1.Event | undefined;
  #hasEvents = false;

  constructor(private readonly start: TurnRequest) {
    if (start.$typeName === "folio.v1.ChatRequest") {
      this.threadId = start.threadId;
    } else {
      this.turnId = start.turnId;
    }
    if (start.$typeName === "folio.v1.WatchTurnRequest" && start.fromEvent > 1n) this.lastEvent = start.fromEvent - 1n;
  }

  /** Returns the request of the next stream. Before the first event, a repeated chat joins its turn. */
  request(): TurnRequest {
    if (this.start.$typeName !== "folio.v1.WatchTurnRequest" && !this.#hasEvents) return this.start;
    return create(v1.WatchTurnRequestSchema, { turnId: this.turnId, fromEvent: this.lastEvent + 1n });
  }

  /** Records an event. Returns true if it is new. */
  accept(event: v1.Event): boolean {
    this.turnId = event.turnId;
    this.#hasEvents = true;
    if (event.kind.case === "turnStarted") this.threadId = event.kind.value.threadId;
    if (event.kind.case === "snapshot") this.threadId = event.kind.value.turn?.threadId ?? this.threadId;
    if (event.number <= this.lastEvent) return false;
    this.lastEvent = event.number;
    this.closing = isClosing(event) ? event : undefined;
    return true;
  }

  /** Returns the round that waits for decisions. Undefined: the turn ended, or its streams have not ended yet. */
  waiting(): v1.AwaitingApproval | undefined {
    return this.closing?.kind.case === "awaitingApproval" ? this.closing.kind.value : undefined;
  }

  /** Returns the answer of the turn. Throws the error of a failed turn. */
  completed(): v1.Completed {
    const kind = this.closing?.kind;
    if (kind?.case === "completed") return kind.value;
    if (kind?.case === "failed") throw errorOfMessage(kind.value.error);
    throw new FolioError("FAILED_PRECONDITION", "", `the turn is not completed: ${kind?.case ?? "its events were not read"}`);
  }
}

/** Returns true if the stream of the turn ends with this event. */
export function isClosing(event: v1.Event): boolean {
  return CLOSING.has(event.kind.case ?? "");
}
