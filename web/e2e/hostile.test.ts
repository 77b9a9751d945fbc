import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hidden, launch, say, signIn, visible, visit } from "./browser.js";
import { newOrganization, uploadText, type Organization } from "./organization.js";

const NAME = '"><img src=x onerror="window.hacked=`name`">‮fdp.txt';
const TEXT = "<script>window.hacked='text'</script><img src=https://evil.example/text.png onerror=alert(1)> {{constructor.constructor('alert(1)')()}} javascript:alert(1)";

let browser: Browser;
let organization: Organization;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("<b>Bold</b> organization");
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

test("names, texts of documents and answers of models run nothing and request nothing", async () => {
  const { page, context, violations } = await visit(browser);
  const name = NAME.replace(/\u202e/g, "");
  const { documentId } = await uploadText(organization, name, TEXT);
  await organization.api.tags.createTag({ tag: { name: "<i onmouseover=alert(1)>tag</i>" } });
  await signIn(page, organization.token);
  await visible(page.getByRole("link", { name }));
  await page.goto(`/documents/${documentId}?panel=text`);
  await visible(page.getByText("<script>window.hacked='text'</script>").first());
  await page.getByRole("tab", { name: "Agent" }).click();
  await say(page, "attack");
  await visible(page.getByText("The attack ends here."));
  await visible(page.getByText("click", { exact: true }));
  const found = await page.evaluate(() => ({
    hacked: "hacked" in window,
    scripts: [...document.scripts].filter(({ src }) => !src.startsWith(location.origin)).length,
    frames: document.querySelectorAll("iframe, object, embed").length,
    links: [...document.links].map(({ protocol }) => protocol).filter((protocol) => !/^(https?|mailto):$/.test(protocol)),
    images: [...document.images].map(({ src }) => src).filter((src) => !src.startsWith("blob:") && !src.startsWith(location.origin)),
    handlers: document.querySelectorAll("[onerror], [onmouseover], [onload]").length,
  }));
  expect(found).toEqual({ hacked: false, scripts: 0, frames: 0, links: [], images: [], handlers: 0 });
  await page.goto("/tags");
  await visible(page.getByText("<i onmouseover=alert(1)>tag</i>"));
  // The rejected styles and scripts of the answer do not even reach the policy of the page.
  expect(violations.found).toEqual([]);
  await context.close();
});

test("parameters of the address run nothing", async () => {
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token);
  for (const address of ["/?text=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "/audit?subject=%3Cscript%3Ealert(1)%3C/script%3E", "/documents/..%2F..%2Fetc%2Fpasswd", "/documents/doc_1?panel=%3Csvg/onload=alert(1)%3E&thread=javascript:alert(1)"]) {
    await page.goto(address);
    await visible(page.getByRole("navigation", { name: "Views" }));
    await hidden(page.getByText("Loading"));
  }
  expect(await page.evaluate(() => document.querySelectorAll("[onerror], [onload]").length)).toBe(0);
  expect(violations.found).toEqual([]);
  await context.close();
});
