// Streams that are opened again after a lost connection.
import { errorOf, type FolioError } from "./errors.js";
import { Rejoining, sleep, type RetryPolicy } from "./retry.js";

/** Opens a stream, which ends if the signal is aborted. */
export type Open<T> = (options: { signal: AbortSignal }) => AsyncIterable<T>;

/** Options of a stream of the client. */
export interface StreamOptions {
  /** If the signal is aborted, the stream ends at once, without an error. */
  readonly signal?: AbortSignal | undefined;
}

/** Returns the messages of a stream that is opened again after a lost connection. `start` is called before each attempt. */
export async function* rejoined<T>(
  policy: RetryPolicy,
  open: Open<T>,
  start?: () => void,
  { signal }: StreamOptions = {},
): AsyncGenerator<T, void> {
  const rejoining = new Rejoining(policy);
  const isAborted = () => signal?.aborted === true;
  while (!isAborted()) {
    start?.();
    const controller = new AbortController();
    const abort = () => controller.abort();
    signal?.addEventListener("abort", abort);
    let hasProgress = false;
    let failure: FolioError | undefined;
    const messages = open({ signal: controller.signal })[Symbol.asyncIterator]();
    try {
      for (;;) {
        let next: IteratorResult<T>;
        try {
          next = await messages.next();
        } catch (reason) {
          failure = errorOf(reason);
          break;
        }
        if (next.done === true) break;
        hasProgress = true;
        yield next.value;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      controller.abort();
    }
    if (isAborted()) return;
    await sleep(rejoining.delay(failure, hasProgress));
  }
}
