// The streams of a tab. Browsers open at most six HTTP/1.1 connections to a host, over all tabs.

/** Maximum number of open streams of a tab. */
export const STREAMS_MAX = 2;

/** A stream that a view wants to follow. */
interface StreamRequest {
  readonly run: (signal: AbortSignal) => Promise<void>;
  /** True if every other stream is more important, also an older one. */
  readonly isBackground: boolean;
  controller: AbortController | undefined;
}

/**
 * Runs the newest streams that the views want, while the tab is visible. A stream that is stopped because the tab is hidden or
 * because of a newer one starts again later: `run` continues from its own position.
 */
export class StreamSlots {
  /** In the order in which they were added. */
  readonly #wanted = new Set<StreamRequest>();
  #visible = true;

  /** Runs a stream when possible, and returns the function that removes it. */
  add(run: (signal: AbortSignal) => Promise<void>, isBackground = false): () => void {
    const wanted: StreamRequest = { run, isBackground, controller: undefined };
    this.#wanted.add(wanted);
    this.#schedule();
    return () => {
      wanted.controller?.abort();
      if (this.#wanted.delete(wanted)) this.#schedule();
    };
  }

  setVisible(visible: boolean): void {
    this.#visible = visible;
    this.#schedule();
  }

  /** Number of streams that are open. */
  get open(): number {
    return [...this.#wanted].filter(({ controller }) => controller !== undefined).length;
  }

  #schedule(): void {
    const all = [...this.#wanted].sort((a, b) => Number(b.isBackground) - Number(a.isBackground));
    const first = this.#visible ? Math.max(all.length - STREAMS_MAX, 0) : all.length;
    all.forEach((wanted, index) => {
      if (index < first) {
        wanted.controller?.abort();
        wanted.controller = undefined;
      }
    });
    all.slice(first).forEach((wanted) => this.#start(wanted));
  }

  #start(wanted: StreamRequest): void {
    if (wanted.controller !== undefined) return;
    const controller = new AbortController();
    wanted.controller = controller;
    const ended = () => {
      // A stopped stream stays wanted; one that ended by itself makes its slot free.
      if (!controller.signal.aborted && this.#wanted.delete(wanted)) this.#schedule();
    };
    // `run` shows its errors itself.
    void wanted.run(controller.signal).then(ended, ended);
  }
}

/** Follows the visibility of the page. */
export function followVisibility(slots: StreamSlots, page: Document): () => void {
  const update = () => slots.setVisible(page.visibilityState !== "hidden");
  update();
  page.addEventListener("visibilitychange", update);
  return () => page.removeEventListener("visibilitychange", update);
}
