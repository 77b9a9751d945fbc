import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, signIn, visible, visit } from "./browser.js";
import { newOrganization, uploadInvoice, type Organization } from "./organization.js";

const STREAMS_MAX = 2;
const STREAM = /\/folio\.v1\.\w+\/(Watch\w+|Chat|Approve|ResumeTurn)$/;

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Streams");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

/** Counts the open streams of a tab. */
function openStreams(page: Page): ReadonlySet<unknown> {
  const open = new Set<unknown>();
  page.on("request", (request) => STREAM.test(new URL(request.url()).pathname) && open.add(request));
  page.on("requestfinished", (request) => open.delete(request));
  page.on("requestfailed", (request) => open.delete(request));
  return open;
}

/** Simulates that the tab becomes hidden or visible: Chromium without a window never hides tabs. */
async function setVisible(page: Page, isVisible: boolean): Promise<void> {
  await page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isVisible ? "visible" : "hidden");
}

test("three tabs hold at most two streams each, and hidden tabs hold none", async () => {
  const { page: first, context, violations } = await visit(browser);
  const { documentId } = await uploadInvoice(organization);
  const tabs = [first, await context.newPage(), await context.newPage()];
  const streams = tabs.map(openStreams);
  for (const [index, page] of tabs.entries()) {
    await signIn(page, organization.token, `/documents/${documentId}`);
    await visible(page.getByRole("img", { name: "Page 1" }));
    await expect.poll(() => streams[index]?.size, { timeout: 30_000 }).toBe(STREAMS_MAX);
    await setVisible(page, false);
    await expect.poll(() => streams[index]?.size, { timeout: 30_000 }).toBe(0);
  }
  // Each tab works although the other ones are open: no connection of the browser is occupied by a hidden tab.
  for (const [index, page] of tabs.entries()) {
    await setVisible(page, true);
    await expect.poll(() => streams[index]?.size, { timeout: 30_000 }).toBe(STREAMS_MAX);
    await page.getByRole("tab", { name: "Agent" }).click();
    await visible(page.getByLabel("Message to the agent"));
    await page.getByRole("tab", { name: "Text" }).click();
    await visible(page.getByText("INV-2026-0417").first());
    // The event of a stream that the page closed may follow that of the stream that replaces it.
    await expect.poll(() => streams[index]?.size).toBeLessThanOrEqual(STREAMS_MAX);
    await setVisible(page, false);
  }
  expect(violations.found).toEqual([]);
  await context.close();
});
