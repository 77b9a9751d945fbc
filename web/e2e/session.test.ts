import { v1 } from "folio-client";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, signIn, signInWithPassword, visible, visit } from "./browser.js";
import { newOrganization, newPerson, PASSWORD, type Organization, type Person } from "./organization.js";

let browser: Browser;
let organization: Organization;
let viewer: Person;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Sign-in");
  viewer = await newPerson(organization, "Vera", v1.Role.VIEWER);
});
afterAll(async () => {
  organization.api.close();
  await browser.close();
});

test("a wrong password is refused, the right one signs in, and a sign-out ends the session", async () => {
  const { page, context, violations } = await visit(browser);
  await signInWithPassword(page, viewer.email, "not the password");
  await visible(page.getByRole("alert"));
  await signInWithPassword(page, viewer.email, PASSWORD);
  await visible(page.getByRole("heading", { name: "Documents", level: 1 }));
  // A viewer has no inbox, uploads nothing, and administers nothing.
  for (const name of ["Inbox", "Administration", "Audit log"]) expect(await page.getByRole("link", { name }).count(), name).toBe(0);
  expect(await page.getByRole("button", { name: "Upload" }).count()).toBe(0);
  await page.getByRole("button", { name: "Account" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await visible(page.getByRole("heading", { name: "Sign in to Folio" }));
  expect(await page.evaluate(() => [sessionStorage.length, localStorage.getItem("folio.session"), document.cookie])).toEqual([0, null, ""]);
  expect(violations.found).toEqual([]);
  await context.close();
});

test("a token signs in one tab: a reload keeps the session, and another tab has none", async () => {
  const { page, context, violations } = await visit(browser);
  await signIn(page, organization.token);
  await page.reload();
  await visible(page.getByRole("heading", { name: "Documents", level: 1 }));
  const other = await context.newPage();
  await other.goto("/");
  await visible(other.getByRole("heading", { name: "Sign in to Folio" }));
  expect(await page.evaluate(() => Object.values(localStorage).join(" "))).not.toContain("folio_");
  expect(violations.found).toEqual([]);
  await context.close();
});

test("the keyboard opens views and commands, and the buttons of the browser go back", async () => {
  const { page, context } = await visit(browser);
  await signIn(page, organization.token);
  const tags = page.getByRole("heading", { name: "Tags", level: 1 });
  // The page may not read keys yet, or may read the second key too late.
  await expect.poll(async () => {
    await page.locator("body").press("g");
    await page.locator("body").press("t");
    return tags.waitFor({ timeout: 2_000 }).then(() => true, () => false);
  }).toBe(true);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).fill("open usage");
  await page.keyboard.press("Enter");
  await visible(page.getByRole("heading", { name: "Usage", level: 1 }));
  await page.goBack();
  await visible(tags);
  await context.close();
});

test("the policy of the page permits scripts and requests of the server only", async () => {
  const { page, context } = await visit(browser);
  const response = await page.goto("/");
  const policy = (await response?.allHeaders())?.["content-security-policy"] ?? "";
  expect(policy.split("; ")).toEqual(expect.arrayContaining(["default-src 'none'", "script-src 'self'", "connect-src 'self'"]));
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.hacked = true";
    document.head.append(script);
  });
  expect(await page.evaluate(() => "hacked" in window)).toBe(false);
  await context.close();
});
