import { expect, test } from "vitest";
import { followVisibility, STREAMS_MAX, StreamSlots } from "../src/api/stream_slots.js";

/** A stream that runs until it is stopped or ended. */
function stream() {
  const seen = { starts: 0, stops: 0, end: () => undefined as void };
  const run = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      seen.starts += 1;
      seen.end = resolve;
      signal.addEventListener("abort", () => {
        seen.stops += 1;
        resolve();
      });
    });
  return { seen, run };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));

test("a tab opens at most two streams, and the newest ones run", async () => {
  const slots = new StreamSlots();
  const [a, b, c] = [stream(), stream(), stream()];
  slots.add(a.run);
  slots.add(b.run);
  const removeC = slots.add(c.run);
  await settled();
  expect(slots.open).toBe(STREAMS_MAX);
  expect([a.seen.stops, b.seen.stops, c.seen.starts]).toEqual([1, 0, 1]);
  removeC();
  await settled();
  expect([slots.open, a.seen.starts, c.seen.stops]).toEqual([2, 2, 1]);
});

test("a background stream yields to all others, also to older ones", async () => {
  const slots = new StreamSlots();
  const [a, b, background] = [stream(), stream(), stream()];
  slots.add(a.run);
  const removeB = slots.add(b.run);
  slots.add(background.run, true);
  await settled();
  expect([a.seen.stops, b.seen.stops, background.seen.starts]).toEqual([0, 0, 0]);
  removeB();
  await settled();
  expect([slots.open, background.seen.starts]).toEqual([2, 1]);
});

test("a hidden tab has no open stream, and a visible one continues", async () => {
  const slots = new StreamSlots();
  const a = stream();
  slots.add(a.run);
  slots.setVisible(false);
  await settled();
  expect([slots.open, a.seen.stops]).toEqual([0, 1]);
  slots.setVisible(true);
  expect([slots.open, a.seen.starts]).toEqual([1, 2]);
});

test("of three tabs of a browser, only the visible one has streams", async () => {
  const tabs = [1, 2, 3].map(() => ({ slots: new StreamSlots(), page: new EventTarget() as unknown as Document & { visibilityState: string } }));
  const show = (visible: number) => tabs.forEach(({ page }, index) => {
    Object.assign(page, { visibilityState: index === visible ? "visible" : "hidden" });
    page.dispatchEvent(new Event("visibilitychange"));
  });
  tabs.forEach(({ slots, page }) => {
    followVisibility(slots, page);
    for (let count = 0; count < 3; count++) slots.add(stream().run);
  });
  for (const visible of [0, 2, 1]) {
    show(visible);
    expect(tabs.map(({ slots }) => slots.open)).toEqual([0, 1, 2].map((index) => (index === visible ? STREAMS_MAX : 0)));
  }
});

test("a stream that ends by itself makes its slot free", async () => {
  const slots = new StreamSlots();
  const [a, b, c] = [stream(), stream(), stream()];
  for (const { run } of [a, b, c]) slots.add(run);
  c.seen.end();
  await settled();
  expect([slots.open, a.seen.starts]).toEqual([2, 2]);
});
