import { connect, v1 } from "folio-client";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { hidden, launch, signIn, visible, visit, type Visitor } from "./browser.js";
import { newOrganization, PASSWORD } from "./organization.js";

let browser: Browser;
let visitor: Visitor;

beforeAll(async () => {
  browser = await launch();
  visitor = await visit(browser);
  await signIn(visitor.page, inject("servers").token);
});
afterAll(async () => {
  expect(visitor.violations.found).toEqual([]);
  await browser.close();
});

test("a provider is added, gets a model of its endpoint, is tested and deleted, and a default model is saved", async () => {
  const { page } = visitor;
  await page.goto("/administration/providers");
  await page.getByRole("button", { name: "New provider" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name").fill("own");
  await form.getByLabel("Base URL").fill(`${inject("servers").model}/v1`);
  await form.getByLabel("API key").and(page.locator("input")).fill("a-SECRET-key");
  await form.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Models of own" }).click();
  await page.getByRole("button", { name: "Discover models" }).click();
  await page.getByRole("combobox", { name: "Models of the endpoint" }).click();
  await visible(page.getByRole("option", { name: "second" }));
  expect(await page.content()).not.toContain("a-SECRET-key");
  await page.getByRole("option", { name: "second" }).click();
  await form.getByRole("button", { name: "Add", exact: true }).click();
  await form.getByRole("button", { name: "Save the models" }).click();
  await hidden(form);
  await page.getByRole("button", { name: "Test own" }).click();
  await visible(page.getByText(/^second answered in /));

  await page.getByRole("combobox", { name: "Default model" }).click();
  await page.getByRole("option", { name: "second", exact: true }).click();
  await page.getByRole("button", { name: "Save the defaults" }).click();
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  await expect.poll(async () => (await platform.providers.listProviders({ owner: v1.ProviderOwner.ORGANIZATION })).defaultModel).toBe("second");
  platform.close();
  await page.reload();
  await page.getByRole("button", { name: "Delete own", exact: true }).click();
  await page.getByRole("button", { name: "Confirm: Delete own" }).click();
  await hidden(page.getByRole("button", { name: "Edit own" }));
});

test("an organization and a user are created by the platform", async () => {
  const { page } = visitor;
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  await page.goto("/administration/organizations");
  await page.getByLabel("Name", { exact: false }).and(page.locator("input[required]")).first().fill("New tenant");
  await page.getByLabel("Name of the first admin").fill("Ada");
  await page.getByRole("button", { name: "Create organization" }).click();
  await visible(page.getByRole("button", { name: "Credit of New tenant" }));
  expect((await platform.organizations.listOrganizations({ filter: "name:tenant" })).organizations.map(({ name }) => name)).toEqual(["New tenant"]);
  await page.goto("/administration/users");
  await page.getByRole("button", { name: "New user" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name").fill("Uma");
  await form.getByLabel("E-mail address").fill("uma@example.com");
  await form.getByLabel("First password").and(page.locator("input")).fill(PASSWORD);
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  await visible(page.getByRole("button", { name: "Edit Uma" }));
  platform.close();
});

test("credit is granted to an organization, and withdrawn", async () => {
  const { page } = visitor;
  const { api } = await newOrganization("Credited tenant");
  const granted = async () => (await api.usages.getBalance({})).granted;
  const before = await granted();
  await page.goto("/administration/organizations");
  await page.getByRole("button", { name: "Credit of Credited tenant" }).click();
  const form = page.getByRole("dialog");
  const credits = form.getByLabel("Credits").and(page.locator("input"));
  await credits.fill("500");
  await form.getByLabel("Purpose").fill("trial");
  await form.getByRole("button", { name: "Grant the credits" }).click();
  await visible(form.getByText("500 credits granted."));
  await expect.poll(granted).toBe(before + 500n);
  await form.getByText("Withdraw", { exact: true }).click();
  await credits.fill("20");
  await form.getByRole("button", { name: "Withdraw the credits" }).click();
  await visible(form.getByText("20 credits withdrawn."));
  await expect.poll(granted).toBe(before + 480n);
  api.close();
});

test("a user is changed, gets another password, and is deleted with its exact address", async () => {
  const { page } = visitor;
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  const email = "umberto@example.com";
  await platform.users.createUser({ user: { name: "Umberto", email }, password: PASSWORD });
  await page.goto("/administration/users");
  const form = page.getByRole("dialog");
  await page.getByRole("button", { name: "Edit Umberto" }).click();
  await form.getByLabel("Name").fill("Umberto E.");
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  await page.getByRole("button", { name: "Reset the password of Umberto E." }).click();
  await form.getByLabel("New password").and(page.locator("input")).fill("a new long password");
  await form.getByRole("button", { name: "Set the password" }).click();
  await hidden(form);
  const anonymous = connect({ server });
  expect((await anonymous.accounts.signIn({ email, password: "a new long password" })).user?.name).toBe("Umberto E.");
  anonymous.close();
  await page.getByRole("button", { name: "Delete Umberto E." }).click();
  await form.getByLabel("Confirmation").fill(email);
  await form.getByRole("button", { name: "Delete the user" }).click();
  await hidden(page.getByRole("button", { name: "Edit Umberto E." }));
  platform.close();
});

test("an organization gets limits, and is deleted with its exact name", async () => {
  const { page } = visitor;
  const { api } = await newOrganization("Leaving tenant");
  await page.goto("/administration/organizations");
  const form = page.getByRole("dialog");
  await page.getByRole("button", { name: "Limits of Leaving tenant" }).click();
  await form.getByLabel("Documents", { exact: true }).and(page.locator("input")).fill("7");
  await form.getByRole("button", { name: "Save the limits" }).click();
  await expect.poll(async () => (await api.limits.getLimits({})).own?.documents).toBe(7);
  await page.keyboard.press("Escape");
  await hidden(form);
  await page.getByRole("button", { name: "Delete Leaving tenant" }).click();
  await form.getByLabel("Confirmation").fill("Leaving tenant");
  await form.getByRole("button", { name: "Delete the organization" }).click();
  await hidden(page.getByRole("button", { name: "Delete Leaving tenant" }));
  api.close();
});
