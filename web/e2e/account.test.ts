import { connect, v1 } from "folio-client";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { hidden, launch, signInWithPassword, visible, visit, type Visitor } from "./browser.js";
import { newOrganization, newPerson, PASSWORD, type Organization, type Person } from "./organization.js";

const NEW_PASSWORD = "another long password";

let browser: Browser;
let organization: Organization;
let person: Person;
let visitor: Visitor;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Accounts");
  person = await newPerson(organization, "Pia", v1.Role.MEMBER);
  visitor = await visit(browser);
  await signInWithPassword(visitor.page, person.email, PASSWORD);
  await visible(visitor.page.getByRole("heading", { name: "Documents", level: 1 }));
});
afterAll(async () => {
  expect(visitor.violations.found).toEqual([]);
  organization.api.close();
  await browser.close();
});

test("an account token is shown once, acts in the organizations of the user, and is revoked", async () => {
  const { page } = visitor;
  await page.goto("/account");
  await page.getByLabel("Purpose").fill("laptop of Pia");
  await page.getByRole("button", { name: "Create token" }).click();
  const secret = (await page.locator("code").filter({ hasText: "folio_" }).textContent()) ?? "";
  const api = connect({ server: inject("servers").api, token: secret, organization: organization.id });
  expect((await api.organizations.getOrganization({})).callerRole).toBe(v1.Role.MEMBER);
  api.close();
  await page.reload();
  await visible(page.getByRole("button", { name: "Revoke laptop of Pia" }));
  expect(await page.content()).not.toContain(secret);
  await page.getByRole("button", { name: "Revoke laptop of Pia" }).click();
  await hidden(page.getByRole("button", { name: "Revoke laptop of Pia" }));
});

test("the name of the account is changed", async () => {
  const { page } = visitor;
  await page.goto("/account");
  await page.getByLabel(/^Name/).and(page.locator("input")).fill("Pia Renamed");
  await page.getByRole("button", { name: "Save the name" }).click();
  await visible(page.getByRole("button", { name: "Account: Pia Renamed" }));
});

test("a session in another browser is ended", async () => {
  const other = await visit(browser);
  await signInWithPassword(other.page, person.email, PASSWORD);
  await visible(other.page.getByRole("heading", { name: "Documents", level: 1 }));
  const { page } = visitor;
  await page.goto("/account");
  const sessions = page.getByRole("table", { name: "Sessions" });
  await visible(sessions.getByText("This session"));
  await sessions.getByRole("button", { name: /^End the session of / }).first().click();
  await hidden(sessions.getByRole("button", { name: /^End the session of / }));
  const signIn = other.page.getByRole("heading", { name: "Sign in to Folio" });
  await expect.poll(async () => {
    await other.page.goto("/tags");
    return signIn.waitFor({ timeout: 5_000 }).then(() => true, () => false);
  }, { timeout: 60_000, interval: 1_000 }).toBe(true);
  await visible(page.getByRole("heading", { name: "Account", level: 1 }));
  await other.context.close();
});

test("a new password ends the session, and signs in", async () => {
  const { page } = visitor;
  await page.goto("/account");
  const field = (label: RegExp) => page.getByLabel(label).and(page.locator("input"));
  await field(/^Current password/).fill(PASSWORD);
  await field(/^New password( \*)?$/).fill(NEW_PASSWORD);
  await field(/^New password again/).fill(NEW_PASSWORD);
  await page.getByRole("button", { name: "Change the password" }).click();
  await visible(page.getByRole("heading", { name: "Sign in to Folio" }));
  await signInWithPassword(page, person.email, NEW_PASSWORD);
  await visible(page.getByRole("heading", { name: "Documents", level: 1 }));
});
