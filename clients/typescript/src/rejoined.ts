// Streams that are opened again after a lost connection.
import { errorOf, type FolioError } from "./errors.js";
import { Rejoining, sleep, type RetryPolicy } from "./retry.js";

/** Opens a stream, which ends if the signal is aborted. */
export type Open<T> = (options: { signal: AbortSignal }) => AsyncIterable<T>;

/** Returns the messages of a stream that is opened again after a lost connection. `start` is called before each attempt. */
export async function* rejoined<T>(policy: RetryPolicy, open: Open<T>, start?: () => void): AsyncGenerator<T, void> {
  const rejoining = new Rejoining(policy);
  for (;;) {
    start?.();
    const controller = new AbortController();
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
      controller.abort();
    }
    await sleep(rejoining.delay(failure, hasProgress));
  }
}
