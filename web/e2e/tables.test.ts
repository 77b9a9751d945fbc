import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, say, signIn, violationsOf, visible, visit } from "./browser.js";
import { newOrganization, uploadPdf, type Organization } from "./organization.js";

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Tables");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

test("the assistant answers with a card whose source leads to its words, and computes", async () => {
  await uploadPdf(browser, organization, "clamp.pdf", "<h1>Warranty</h1><p>The molybdenum clamp has a warranty of seven years.</p>");
  const find = async () => (await organization.api.retrieval.search({ query: "molybdenum" })).passages.length;
  await expect.poll(find, { timeout: 60_000 }).toBeGreaterThan(0);
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, "/assistant");
  await say(page, "How long is the warranty of the clamp?");
  const answer = page.getByRole("region", { name: "Answer" });
  await visible(answer.getByText("The clamp has a warranty of seven years. <b>not bold</b>"));
  await visible(page.getByRole("list", { name: "Steps" }).getByText("Update memory, done"));
  await say(page, "What is the margin if 12 percent of 4200 are costs?");
  await visible(page.getByRole("region", { name: "Calculation" }).getByText("2496"));
  expect(await violationsOf(page, "assistant")).toEqual([]);
  // After a reload, the answers are read from their turns.
  await page.reload();
  await answer.getByRole("link", { name: /clamp\.pdf/ }).click();
  await visible(page.getByTestId("highlight").locator("rect").first());
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a question of the search is answered above the passages", async () => {
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, "/search?q=molybdenum");
  await visible(page.getByRole("list", { name: "Passages" }));
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await visible(page.getByRole("region", { name: "Answer" }));
  await visible(page.getByRole("list", { name: "Citations" }).getByRole("link", { name: /clamp\.pdf/ }));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("columns are proposed and approved, rows are filled, and a cell is reviewed by the keyboard", async () => {
  const documentId = await uploadPdf(browser, organization, "bill.pdf", "<p>Vendor: Acme</p><p>Total: 957.00 EUR</p>");
  const { stack } = await organization.api.stacks.createStack({ stack: { name: "Bills", documentIds: [documentId], reviewRule: { minConfidence: 0.9, requiresCitation: true } } });
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, `/stacks/${stack?.stackId ?? ""}`);
  await page.getByRole("button", { name: "Propose columns with an agent" }).click();
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await visible(page.getByRole("table", { name: "Proposed columns" }).getByText("number in EUR, required"));
  await page.getByRole("button", { name: "Approve define_columns" }).click();
  await visible(page.getByText("The columns are defined."));
  await page.getByRole("tab", { name: "Table" }).click();
  await page.getByRole("button", { name: "Fill the rows" }).click();
  const cell = page.getByRole("gridcell", { name: /^957/ });
  await visible(cell);
  await cell.click();
  const selected = page.getByRole("region", { name: "Selected cell" });
  await visible(selected.getByText("Waits for a decision"));
  expect(await violationsOf(page, "stack")).toEqual([]);
  await page.keyboard.press("a");
  await visible(selected.getByText("Approved", { exact: true }));
  await page.keyboard.press("ArrowRight");
  // The focus moves with the next frame.
  await page.locator('[data-cell="0-2"]:focus').waitFor();
  await page.keyboard.press("e");
  await page.getByRole("textbox", { name: "Value of Vendor" }).fill("Acme");
  await page.keyboard.press("Enter");
  await visible(page.getByRole("gridcell", { name: /^Acme/ }).getByText("Edited"));
  await cell.focus();
  await page.keyboard.press("Enter");
  await visible(page.getByTestId("highlight").locator("rect").first());
  expect(violations.found).toEqual([]);
  await context.close();
});
