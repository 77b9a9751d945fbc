// The events of a turn, with the decisions about its calls.
import type { Client } from "@connectrpc/connect";
import { approvals, approveRequest, type Approval, type Approver, type Decision } from "./approvals.js";
import type * as v1 from "./gen/v1.js";
import { rejoined, type StreamOptions } from "./rejoined.js";
import { sleep, type RetryPolicy } from "./retry.js";
import { isClosing, TurnPosition, type TurnRequest } from "./turn_position.js";

/** Delay between two streams of a turn whose decisions are not recorded yet, in milliseconds. */
const RECHECK = 50;

/** An item of a stream of a turn. */
interface TurnItem {
  readonly event?: v1.Event | undefined;
}

/**
 * The events of a turn, without gaps and repetitions. A lost connection is opened again. The events end with the closing event of
 * the turn, or with `awaitingApproval` if no decision is made about the waiting calls. Leaving the loop does not stop the turn:
 * `cancelTurn` does.
 */
export class Turn implements AsyncIterableIterator<v1.Event> {
  readonly #position: TurnPosition;
  readonly #events: AsyncGenerator<v1.Event, void>;

  /** @internal */
  constructor(
    private readonly conversations: Client<typeof v1.ConversationService>,
    private readonly policy: RetryPolicy,
    start: TurnRequest,
    private readonly approve: Approver | undefined,
    private readonly options: StreamOptions = {},
  ) {
    this.#position = new TurnPosition(start);
    this.#events = this.#run();
  }

  /** The id of the turn. Empty before the first event. */
  get turnId(): string {
    return this.#position.turnId;
  }

  /** The id of the thread, with which a further chat continues. Empty before the first event of a new thread. */
  get threadId(): string {
    return this.#position.threadId;
  }

  /** Number of the last event. `watchTurn` continues with the next one. */
  get lastEvent(): bigint {
    return this.#position.lastEvent;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<v1.Event, void>> {
    return this.#events.next();
  }

  /** Closes the stream. The turn continues on the server. */
  async return(): Promise<IteratorResult<v1.Event, void>> {
    return this.#events.return();
  }

  /** Reads the events to the end and returns the answer. Throws the error of a failed turn; any other end is an error, too. */
  async completed(): Promise<v1.Completed> {
    for (let next = await this.next(); next.done !== true; next = await this.next());
    return this.#position.completed();
  }

  async *#run(): AsyncGenerator<v1.Event, void> {
    yield* this.#stream();
    for (let waiting = this.#position.waiting(); waiting !== undefined; waiting = this.#position.waiting()) {
      if (this.approve === undefined) return;
      const request = await this.#decide(waiting, this.approve);
      const before = this.#position.lastEvent;
      if (request !== undefined) yield* this.#send(request);
      // The decisions of other users are missing.
      if (this.#position.lastEvent === before) return;
    }
  }

  async #decide(waiting: v1.AwaitingApproval, approve: Approver): Promise<v1.ApproveRequest | undefined> {
    const { turn } = await this.conversations.getTurn({ turnId: waiting.turnId });
    const decisions: [Approval, Decision][] = [];
    for (const approval of approvals(waiting, turn?.approvableCallIds ?? [])) {
      decisions.push([approval, await approve(approval)]);
    }
    return approveRequest(waiting, decisions);
  }

  /** Sends decisions and returns the events up to the next closing event: none if decisions of other users are missing. */
  async *#send(request: v1.ApproveRequest): AsyncGenerator<v1.Event, void> {
    const before = this.#position.lastEvent;
    let settled: "recorded" | "still awaiting" | "failed" | undefined;
    const answer = this.conversations.approve(request).then((response) => {
      settled = response.outcome.case === "stillAwaiting" ? "still awaiting" : "recorded";
    });
    // The failure is thrown below; until then it is no unhandled rejection.
    answer.catch(() => (settled = "failed"));
    while (this.#position.lastEvent === before || this.#position.closing === undefined) {
      // Until the decisions are recorded, a stream only repeats the known pause.
      yield* this.#stream();
      if (settled === "failed") await answer;
      if (settled === "still awaiting" || this.options.signal?.aborted === true) return;
      if (this.#position.lastEvent === before) await sleep(RECHECK);
    }
    await answer;
  }

  /** Returns the new events until the stream ends with a closing event. */
  async *#stream(): AsyncGenerator<v1.Event, void> {
    const open = (options: { signal: AbortSignal }) => this.#open(this.#position.request(), options);
    for await (const { event } of rejoined<TurnItem>(this.policy, open, undefined, this.options)) {
      if (event === undefined) continue;
      if (this.#position.accept(event)) yield event;
      if (isClosing(event)) return;
    }
  }

  #open(request: TurnRequest, options: { signal: AbortSignal }): AsyncIterable<TurnItem> {
    if (request.$typeName === "folio.v1.ChatRequest") return this.conversations.chat(request, options);
    if (request.$typeName === "folio.v1.ResumeTurnRequest") return this.conversations.resumeTurn(request, options);
    return this.conversations.watchTurn(request, options);
  }
}
