import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hidden, launch, signIn, visible, visit } from "./browser.js";
import { newOrganization, newPrompt, uploadInvoice, type Organization } from "./organization.js";

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Reviews");
  await newPrompt(organization);
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

/** Opens a new document, and runs the prompt on it. */
async function extract(page: Page, name: string): Promise<string> {
  const { documentId } = await uploadInvoice(organization, name);
  await signIn(page, organization.token, `/documents/${documentId}`);
  await page.getByRole("combobox", { name: "Prompt" }).click();
  await page.getByRole("option", { name: "Invoice data" }).click();
  await page.getByRole("button", { name: "Extract", exact: true }).click();
  await visible(page.getByRole("button", { name: "invoice_number: INV-2026-0417" }));
  return documentId;
}

const stored = async (documentId: string) => (await organization.api.extractions.listExtractions({ documentId, includeData: true })).extractions[0];

test("a field shows its citation on the page, and a review approves, rejects and edits values", async () => {
  const { page, context, violations } = await visit(browser);
  const documentId = await extract(page, "review.pdf");
  const field = page.getByRole("button", { name: "invoice_number: INV-2026-0417" });
  await field.hover();
  await visible(page.getByTestId("highlight"));
  await page.getByRole("button", { name: "Approve invoice_number" }).click();
  await expect.poll(() => page.getByRole("button", { name: "Approve invoice_number" }).getAttribute("aria-pressed")).toBe("true");
  const total = page.getByRole("button", { name: /^total: / });
  await total.press("r");
  await expect.poll(() => page.getByRole("button", { name: "Reject total" }).getAttribute("aria-pressed")).toBe("true");
  await page.getByRole("button", { name: "Edit total" }).click();
  const input = page.getByLabel("Value of total");
  await input.fill("no number");
  await input.press("Enter");
  await expect.poll(() => input.getAttribute("aria-invalid")).toBe("true");
  await input.fill("958.5");
  await input.press("Enter");
  await visible(page.getByRole("button", { name: "total: 958.5" }));
  await page.getByRole("button", { name: "History of total" }).click();
  await visible(page.getByText(/957(\.0+)? → 958\.5/));
  await page.keyboard.press("Escape");
  await page.reload();
  await visible(page.getByRole("button", { name: "total: 958.5" }));
  expect(await page.getByRole("button", { name: "Approve invoice_number" }).getAttribute("aria-pressed")).toBe("true");
  expect(JSON.parse((await stored(documentId))?.editedJson ?? "{}")).toMatchObject({ total: 958.5, invoice_number: "INV-2026-0417" });
  expect(violations.found).toEqual([]);
  await context.close();
});

test("an export downloads the data in each format", async () => {
  const { page, context, violations } = await visit(browser);
  await extract(page, "export.pdf");
  for (const format of ["JSON", "CSV", "XLSX"]) {
    await page.getByRole("button", { name: "Export", exact: true }).click();
    const download = page.waitForEvent("download");
    await page.getByRole("menuitem", { name: new RegExp(format) }).first().click();
    expect((await download).suggestedFilename().toLowerCase()).toMatch(new RegExp(`\\.(${format.toLowerCase()}|zip)$`));
  }
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a requested review appears in the inbox, and leaves it when all values are approved", async () => {
  const { page, context, violations } = await visit(browser);
  const documentId = await extract(page, "inbox.pdf");
  const extraction = await stored(documentId);
  await organization.api.extractions.requestReview({ extractionId: extraction?.extractionId ?? "", requested: true });
  await page.getByRole("link", { name: "Inbox" }).click();
  const item = page.getByRole("listitem").filter({ hasText: "inbox.pdf" });
  await visible(item);
  await item.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Approve all values" }).click();
  await visible(page.getByText("6 of 6 values approved"));
  await page.getByRole("link", { name: "Inbox" }).click();
  await visible(page.getByRole("heading", { name: "Inbox", level: 1 }));
  await hidden(item);
  expect(violations.found).toEqual([]);
  await context.close();
});
