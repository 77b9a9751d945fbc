import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, signIn, visible, visit } from "./browser.js";
import { newOrganization, uploadPdf, uploadText, type Organization } from "./organization.js";

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Knowledge");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

test("a section of the outline is highlighted on its page, and shows its text", async () => {
  const section = (title: string, text: string) => `<h1 style="page-break-before:always">${title}</h1><p>${text}</p>`;
  const documentId = await uploadPdf(browser, organization, "manual.pdf", section("Cleaning", "Rinse the tank.") + section("Storage", "Keep the hopper dry."));
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, `/documents/${documentId}?panel=outline`);
  await page.getByRole("button", { name: "Go to Storage" }).click();
  await visible(page.getByTestId("highlight").locator("rect"));
  await page.getByRole("button", { name: "Text of Storage" }).click();
  await visible(page.getByRole("region", { name: "Section Storage" }).getByText("Keep the hopper dry."));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a search finds a passage and leads to its words on the page", async () => {
  await uploadPdf(browser, organization, "warranty.pdf", "<h1>Warranty</h1><p>The zirconium valve has a warranty of nine years.</p>");
  const find = async () => (await organization.api.retrieval.search({ query: "zirconium" })).passages.length;
  await expect.poll(find, { timeout: 60_000 }).toBeGreaterThan(0);
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, "/search");
  await page.getByLabel("Words or a question").fill("zirconium valve");
  await page.getByLabel("Words or a question").press("Enter");
  const passages = page.getByRole("list", { name: "Passages" });
  await visible(passages.locator("mark", { hasText: "zirconium" }));
  await passages.getByRole("link", { name: /warranty\.pdf/ }).click();
  await visible(page.getByTestId("highlight").locator("rect").first());
  expect(violations.found).toEqual([]);
  await context.close();
});

test("the documents in a PDF are proposed, and made under the names that a person gives", async () => {
  const sheet = (number: string, page: string) => `<p>Invoice</p><p>Invoice number: ${number}</p><p>Page ${page}</p>`;
  const sheets = [sheet("A-1", "1 of 2"), sheet("A-1", "2 of 2"), sheet("B-2", "1 of 1")];
  const documentId = await uploadPdf(browser, organization, "bundle.pdf", sheets.join('<div style="break-after:page"></div>'));
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, `/documents/${documentId}?panel=split`);
  await visible(page.getByText("The file seems to contain 2 documents."));
  const parts = page.getByRole("list", { name: "Parts" });
  await visible(parts.getByText("the numbering of pages restarts"));
  await page.getByRole("textbox", { name: "Name of p. 3" }).fill("second.pdf");
  await page.getByRole("button", { name: "Make 2 documents" }).click();
  await page.getByRole("status").getByRole("link", { name: "second.pdf" }).click();
  await visible(page.getByRole("heading", { name: "second.pdf" }));
  await visible(page.locator("svg text", { hasText: "B-2" }));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("an entry of the dictionary is created, found and deleted", async () => {
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, "/dictionary");
  await page.getByRole("button", { name: "New entry" }).click();
  await page.getByRole("textbox", { name: "Term" }).fill("MY");
  await page.getByRole("textbox", { name: "Meaning" }).fill("Malaysia");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByLabel("Search by name").fill("my");
  await visible(page.getByRole("cell", { name: "Malaysia" }));
  await page.getByRole("button", { name: "Edit MY" }).click();
  await page.getByRole("button", { name: "Delete" }).click();
  await visible(page.getByRole("heading", { name: "Nothing here" }));
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a target that no document has is listed until it arrives", async () => {
  await uploadText(organization, "offer.txt", "The prices are in annex-7.pdf.\n");
  const targets = async () => (await organization.api.links.listMissingLinks({})).links.map(({ target }) => target);
  await expect.poll(targets, { timeout: 60_000 }).toContain("annex-7.pdf");
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token, "/links");
  await page.getByRole("button", { name: "1 document with annex-7.pdf" }).click();
  await visible(page.getByRole("link", { name: "offer.txt" }));
  await uploadPdf(browser, organization, "annex-7.pdf", "<p>Prices</p>");
  await expect.poll(targets, { timeout: 60_000 }).not.toContain("annex-7.pdf");
  expect(violations.found).toEqual([]);
  await context.close();
});
