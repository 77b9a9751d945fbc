import { readFile } from "node:fs/promises";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hidden, launch, signIn, visible, visit } from "./browser.js";
import { newOrganization, newPrompt, uploadText, type Organization } from "./organization.js";

const PAGES = 200;
const INVOICE = new URL("../../samples/invoice.pdf", import.meta.url).pathname;

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Documents");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

/** Prints HTML as a PDF with the fonts of the machine. */
async function pdfOf(html: string): Promise<Buffer> {
  const page = await browser.newPage();
  await page.setContent(html);
  const file = await page.pdf({ format: "A5" });
  await page.close();
  return file;
}

async function upload(page: Page, ...files: { name: string; mimeType: string; buffer: Buffer }[]): Promise<void> {
  await page.getByLabel("Files").setInputFiles(files);
  await visible(page.getByText(`${files.length} of ${files.length} uploaded`));
}

test("files are uploaded together, found by their name, tagged and deleted", async () => {
  const { page, context, violations } = await visit(browser);
  await organization.api.tags.createTag({ tag: { name: "urgent" } });
  await signIn(page, organization.token);
  await visible(page.getByRole("heading", { name: "No documents yet" }));
  const text = (name: string) => ({ name, mimeType: "text/plain", buffer: Buffer.from(`This is ${name}.`) });
  await upload(page, text("first.txt"), text("second.txt"), text("third.txt"));
  await visible(page.getByText("3 documents", { exact: true }));
  await page.getByLabel("Search by name").fill("second");
  await visible(page.getByText("1 documents", { exact: true }));
  await expect.poll(() => new URL(page.url()).search).toContain("second");
  await page.reload();
  await visible(page.getByText("1 documents", { exact: true }));
  await page.getByLabel("Select second.txt").check();
  await page.getByRole("button", { name: "Tag", exact: true }).click();
  await page.getByRole("menuitem", { name: "urgent" }).click();
  await visible(page.getByRole("row", { name: /second\.txt.*urgent/ }));
  await page.getByLabel("Select second.txt").check();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await visible(page.getByRole("heading", { name: "No document matches" }));
  await page.getByRole("button", { name: "Show all documents" }).click();
  await visible(page.getByText("2 documents", { exact: true }));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a dropped file is uploaded, and its pages and words are shown", async () => {
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token);
  const { readFile } = await import("node:fs/promises");
  const content = (await readFile(INVOICE)).toString("base64");
  await page.getByTestId("drop-area").evaluate((area, base64) => {
    const data = new DataTransfer();
    data.items.add(new File([Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0))], "dropped.pdf", { type: "application/pdf" }));
    for (const type of ["dragenter", "drop"]) area.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
  }, content);
  await page.getByRole("region", { name: "Uploads" }).getByRole("link", { name: "dropped.pdf" }).click();
  await visible(page.getByText("Ready", { exact: true }));
  await visible(page.getByRole("img", { name: "Page 1" }));
  await visible(page.locator("svg text", { hasText: "INV-2026-0417" }));
  await page.getByLabel("Search in the document").fill("Hamburg");
  await visible(page.getByText("1 matches"));
  await expect.poll(() => page.locator("svg rect").count()).toBeGreaterThan(0);
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a document of 200 pages renders only the pages near the visible one", async () => {
  const { page, context, violations } = await visit(browser);
  const html = Array.from({ length: PAGES }, (_, index) => `<h1 style="page-break-before: always">Sheet number ${index + 1}</h1>`).join("");
  const file = await pdfOf(html.replace("page-break-before: always", ""));
  const { documentId } = await organization.api.upload(file, { name: "long.pdf" });
  const { pages } = await organization.api.waitForText(documentId);
  expect(pages).toBe(PAGES);
  await signIn(page, organization.token, `/documents/${documentId}?page=150`);
  await visible(page.getByRole("img", { name: "Page 150", exact: true }));
  await visible(page.getByText("150 / 200"));
  expect(await page.getByRole("region", { name: /^Page \d+$/ }).count()).toBeLessThan(12);
  await page.getByLabel("Search in the document").fill("number 177");
  await visible(page.getByText("1 matches"));
  await page.getByLabel("Search in the document").press("Enter");
  await visible(page.getByRole("img", { name: "Page 177", exact: true }));
  expect(await page.evaluate(() => document.querySelectorAll("*").length)).toBeLessThan(5_000);
  expect(violations.found).toEqual([]);
  await context.close();
});

test("right-to-left and CJK text keep their characters and their direction", async () => {
  const { page, context, violations } = await visit(browser);
  const [rtl, cjk] = ["فاتورة رقم ٤١٧ المجموع", "請求書番号四一七 合計金額 发票 영수증"];
  const { documentId } = await organization.api.upload(await pdfOf(`<p dir="rtl" lang="ar">${rtl}</p><p lang="ja">${cjk}</p>`), { name: "فاتورة 請求書.pdf" });
  await organization.api.waitForText(documentId);
  const plain = await uploadText(organization, "עברית.txt", `${rtl}\n${cjk}\nשלום עולם\n`);
  await signIn(page, organization.token);
  await visible(page.getByRole("link", { name: "فاتورة 請求書.pdf" }));
  await page.goto(`/documents/${documentId}`);
  await visible(page.getByRole("img", { name: "Page 1" }));
  await visible(page.locator("svg text", { hasText: "請求書番号" }));
  await page.getByLabel("Search in the document").fill("合計");
  await visible(page.getByText("1 matches"));
  await page.goto(`/documents/${plain.documentId}?panel=text`);
  const hebrew = page.getByText("שלום עולם").first();
  await visible(hebrew);
  expect(await hebrew.evaluate((element) => getComputedStyle(element).unicodeBidi)).toMatch(/plaintext|isolate/);
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a batch extracts selected documents, and shows its progress and its results", async () => {
  const { page, context, violations } = await visit(browser);
  const own = await newOrganization("Batches");
  await newPrompt(own);
  for (const name of ["one.txt", "two.txt"]) await uploadText(own, name, "Invoice Number: INV-2026-0417\nTotal: 957.00");
  await signIn(page, own.token);
  for (const name of ["one.txt", "two.txt"]) await visible(page.getByRole("link", { name }));
  await page.getByLabel("Select all loaded documents").check();
  await page.getByRole("button", { name: "Extract", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Prompt").click();
  await page.getByRole("option", { name: "Invoice data" }).click();
  await page.getByRole("button", { name: "Extract 2 documents" }).click();
  await hidden(page.getByRole("dialog"));
  await page.getByRole("link", { name: "Batches" }).click();
  await page.getByRole("table", { name: "Batches" }).getByRole("button").first().click();
  const details = page.getByRole("dialog", { name: "Batch" });
  await visible(details.getByText("completed"));
  await visible(details.getByText("2 of 2"));
  await details.getByRole("button", { name: "Export" }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("menuitem", { name: "JSON" }).click()]);
  expect(file.suggestedFilename()).toMatch(/^job_.*\.json$/);
  const exported = JSON.parse(await readFile(await file.path(), "utf8")) as { document: string }[];
  expect(exported.map(({ document }) => document).sort()).toEqual(["one.txt", "two.txt"]);
  await details.getByRole("link", { name: "one.txt" }).click();
  await visible(page.getByRole("heading", { name: "one.txt" }));
  await visible(page.getByText("INV-2026-0417").first());
  expect(new URL(page.url()).searchParams.get("extraction")).toMatch(/^ext_/);
  expect(violations.found).toEqual([]);
  own.api.close();
  await context.close();
});
