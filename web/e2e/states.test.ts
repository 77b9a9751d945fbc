// The main states of the page in both themes: axe, accessibility snapshots, and screenshots.
//
// `npm run screenshots` writes the screenshots with the version of Chromium and the font. Pixels are compared only where both
// are equal to the recorded ones.
import { execFileSync } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hidden, launch, say, signIn, stabilize, violationsOf, visible, visit, type Theme } from "./browser.js";
import { differingPixels } from "./pixels.js";
import { newOrganization, newPrompt, uploadInvoice, uploadText, type Organization } from "./organization.js";

const IMAGES = new URL("../../docs/images/", import.meta.url);
const RECORD = new URL("snapshots/browser.txt", import.meta.url);
/** Maximum share of pixels that differ between two runs: the edges of letters. */
const DIFFERENT_MAX = 0.002;
const THEMES: readonly Theme[] = ["light", "dark"];

let browser: Browser;
let organization: Organization;
let documentId: string;
let isComparable: boolean;

/** Returns what decides about pixels: the browser and the font of the page. */
function rendering(): string {
  const font = execFileSync("fc-match", ["-f", "%{file}", "sans-serif"], { encoding: "utf8" });
  return `Chromium ${browser.version()}\n${font}\n`;
}

beforeAll(async () => {
  browser = await launch();
  const isWriting = process.env["FOLIO_SCREENSHOTS"] === "write";
  if (isWriting) {
    await mkdir(IMAGES, { recursive: true });
    await writeFile(RECORD, rendering());
  }
  isComparable = !isWriting && (await readFile(RECORD, "utf8").catch(() => "")) === rendering();
  if (!isWriting && !isComparable) console.log("skipped: pixels are not compared, because the recorded browser or font is another one");

  organization = await newOrganization("Nordlicht Papier");
  const { api } = organization;
  const { tag: paid } = await api.tags.createTag({ tag: { name: "paid", color: "#2f9e44" } });
  const { tag: urgent } = await api.tags.createTag({ tag: { name: "urgent", color: "#e03131" } });
  const tagIds = [paid, urgent].map((tag) => tag?.tagId ?? "");
  for (const [index, name] of ["contract.txt", "delivery note.txt", "領収書.txt", "عقد.txt"].entries()) {
    const document = await uploadText(organization, name, "Total: 12.50 EUR\n");
    await api.documents.updateDocument({ document: { documentId: document.documentId, tagIds: tagIds.slice(index % 2) }, updateMask: { paths: ["tag_ids"] } });
  }
  ({ documentId } = await uploadInvoice(organization));
  const prompt = await newPrompt(organization);
  await api.extractions.runExtraction({ documentId, promptRevid: prompt.promptRevid });
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

async function setTheme(page: Page, theme: Theme): Promise<void> {
  await page.emulateMedia({ colorScheme: theme });
  await page.locator(`:root[data-mantine-color-scheme="${theme}"]`).waitFor();
  // The colors of all elements have changed after the next frame.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}

/** Runs axe in both themes. */
async function expectAccessible(page: Page, state: string): Promise<void> {
  for (const theme of THEMES) {
    await setTheme(page, theme);
    expect.soft(await violationsOf(page, `${state}, ${theme}`)).toEqual([]);
  }
}

/** Checks a main state: axe and pixels in both themes, and the accessibility tree. */
async function check(page: Page, state: string): Promise<void> {
  await expectAccessible(page, state);
  await stabilize(page);
  await page.mouse.move(0, 0);
  for (const theme of THEMES) {
    await setTheme(page, theme);
    if (theme === "light") await expect(`${await page.locator("body").ariaSnapshot()}\n`).toMatchFileSnapshot(`snapshots/${state}.yaml`);
    const file = new URL(`${state}-${theme}.png`, IMAGES);
    const image = await page.screenshot({ animations: "disabled", caret: "hide" });
    if (process.env["FOLIO_SCREENSHOTS"] === "write") await writeFile(file, image);
    else if (isComparable) expect.soft(await differingPixels(browser, await readFile(file), image), `${state}-${theme}.png`).toBeLessThan(DIFFERENT_MAX);
  }
}

test("the main states are accessible, and have their recorded trees and pixels", async () => {
  const { page, context, violations } = await visit(browser);
  await page.goto("/");
  await visible(page.getByRole("heading", { name: "Sign in to Folio" }));
  await check(page, "sign-in");

  await signIn(page, organization.token);
  await visible(page.getByRole("link", { name: "invoice.pdf" }));
  await visible(page.getByText("paid").first());
  await check(page, "documents");

  await page.goto(`/documents/${documentId}`);
  await visible(page.getByRole("img", { name: "Page 1" }));
  await visible(page.locator("svg text"));
  await visible(page.getByRole("navigation", { name: "Thumbnails" }).locator("img"));
  await visible(page.getByRole("button", { name: "invoice_number: INV-2026-0417" }));
  await visible(page.getByText("p. 1").first());
  await check(page, "extraction");

  await page.goto(`/documents/${documentId}?panel=agent`);
  await say(page, "tag of the screenshot");
  await visible(page.locator("button:enabled", { hasText: "Approve" }));
  await visible(page.getByLabel("1 waiting"));
  await visible(page.getByRole("img", { name: "Page 1" }));
  await check(page, "agent");
  await page.reload();
  await page.getByRole("button", { name: "Reject create_tag" }).click();
  await page.getByRole("button", { name: "Reject call" }).click();
  await visible(page.getByText("about the tag is done."));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("every view is accessible in both themes", async () => {
  const { page, context } = await visit(browser);
  await signIn(page, organization.token);
  for (const path of ["search", "assistant", "collections", "stacks", "inbox", "schemas", "prompts", "tags", "dictionary", "links", "batches", "usage", "audit", "administration/members", "administration/tokens", "administration/limits", "administration/organization", "administration/webhooks", "administration/providers", "administration/mcp", "administration/policy"]) {
    await page.goto(`/${path}`);
    await visible(page.getByRole("heading", { level: 1 }));
    await hidden(page.getByText("Loading"));
    await expectAccessible(page, path);
  }
  await page.goto("/");
  await visible(page.getByRole("link", { name: "invoice.pdf" }));
  await page.keyboard.press("Control+k");
  await visible(page.getByRole("combobox", { name: "Command" }));
  await expectAccessible(page, "commands");
  await context.close();
});

test("a phone shows the navigation on demand, and can approve a call", async () => {
  const { page, context } = await visit(browser, { width: 390, height: 844 });
  await signIn(page, organization.token, `/documents/${documentId}?panel=agent`);
  await page.getByRole("button", { name: "New", exact: true }).click();
  await say(page, "tag of a phone");
  await visible(page.getByRole("button", { name: "Approve create_tag" }));
  expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBeLessThanOrEqual(0);
  await page.getByRole("button", { name: "Navigation" }).click();
  await page.getByRole("link", { name: /^Inbox/ }).click();
  await page.getByRole("listitem").filter({ hasText: "tag of a phone" }).getByRole("button", { name: "Approve create_tag" }).click();
  await expect.poll(async () => (await organization.api.tags.listTags({ filter: 'name:"tag of a phone"' })).tags.length, { timeout: 30_000 }).toBe(1);
  await context.close();
});
