// Decides whether and when a failed call or a broken stream is repeated. No I/O, no clock.
import { clone, create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { FolioError } from "./errors.js";
import { randomId } from "./random_id.js";

/** Delay before the first repetition in milliseconds, doubled after each repetition up to the maximum. */
const PAUSE = 200;
const PAUSE_MAX = 5_000;
/** Consecutive attempts to open a stream again that was open before. */
const REJOIN_ATTEMPTS = 12;

/** Bounds of the repetitions of a call. */
export interface RetryOptions {
  /** Maximum number of calls, including the first one. 1: no repetition. Default: 5. */
  readonly attempts?: number;
  /** Maximum delay in milliseconds. If the server requests a longer one, the error is thrown. Default: 30,000. */
  readonly maxDelay?: number;
}

export class RetryPolicy {
  readonly attempts: number;
  readonly maxDelay: number;

  constructor(options: RetryOptions = {}) {
    this.attempts = options.attempts ?? 5;
    this.maxDelay = options.maxDelay ?? 30_000;
  }

  /** Returns the milliseconds to wait after failed call number `attempt`, from 1. Undefined: the error is final. */
  delay(error: FolioError, attempt: number): number | undefined {
    if (attempt >= this.attempts) return undefined;
    if (error.retryAfter !== undefined) return error.retryAfter <= this.maxDelay ? error.retryAfter : undefined;
    // A refusal without a delay, such as VERSION_CONFLICT, fails again if the same request is repeated.
    const isUnreachable = error.code === "UNAVAILABLE" || (error.code === "ABORTED" && error.reason === "");
    if (!isUnreachable) return undefined;
    return Math.min(pause(attempt - 1) * (0.5 + Math.random() / 2), this.maxDelay);
  }
}

function pause(repetitions: number): number {
  return Math.min(PAUSE * 2 ** repetitions, PAUSE_MAX);
}

/** Counts the attempts to open one stream. */
export class Rejoining {
  #failures = 0;
  #hasConnected = false;

  constructor(private readonly policy: RetryPolicy) {}

  /**
   * Returns the milliseconds before the next attempt after a stream ended. `error`: undefined if the stream ended without an error.
   * `hasProgress`: the stream sent messages. Throws the error if it is final or the attempts are exhausted.
   */
  delay(error: FolioError | undefined, hasProgress: boolean): number {
    if (error !== undefined && error.retryAfter === undefined && !error.isInterruption) throw error;
    if (hasProgress) {
      this.#failures = 0;
      this.#hasConnected = true;
    }
    this.#failures += 1;
    const limit = this.#hasConnected ? REJOIN_ATTEMPTS : this.policy.attempts;
    const requested = error?.retryAfter ?? 0;
    if (this.#failures >= limit || requested > this.policy.maxDelay) {
      throw error ?? new FolioError("UNAVAILABLE", "", "the stream ended before its last message");
    }
    return Math.max(pause(this.#failures - 1), requested);
  }
}

/** Returns the request with an idempotency key, so that a repetition has no second effect. */
export function withRequestId<I extends DescMessage>(schema: I, input: MessageInitShape<I>): MessageInitShape<I> {
  if (!schema.fields.some((field) => field.localName === "requestId")) return input;
  const request = create(schema, input);
  if ((request as unknown as { requestId: string }).requestId !== "") return input;
  return Object.assign(clone(schema, request), { requestId: randomId() }) as MessageInitShape<I>;
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
