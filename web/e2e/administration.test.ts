import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { connect, v1 } from "folio-client";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { card, hidden, launch, say, signIn, visible, visit, type Visitor } from "./browser.js";
import { startMcpServer } from "./mcp_server.js";
import { newOrganization, newPerson, newPrompt, uploadText, type Organization } from "./organization.js";

let browser: Browser;
let organization: Organization;
let visitor: Visitor;

beforeAll(async () => {
  browser = await launch();
  organization = await newOrganization("Administration");
  visitor = await visit(browser);
  await signIn(visitor.page, organization.token);
});
afterAll(async () => {
  expect(visitor.violations.found).toEqual([]);
  organization.api.close();
  await browser.close();
});

test("members are added, get another role, and are removed", async () => {
  const { page } = visitor;
  await page.goto("/administration/members");
  await page.getByLabel("Name", { exact: false }).and(page.locator("input")).first().fill("Mia");
  await page.getByRole("button", { name: "Add member" }).click();
  const role = page.getByRole("combobox", { name: "Role of Mia" });
  await visible(role);
  await role.click();
  await page.getByRole("option", { name: "viewer", exact: false }).click();
  await expect.poll(async () => (await organization.api.organizations.listMembers({ filter: "name:Mia" })).members[0]?.role).toBe(v1.Role.VIEWER);
  await page.getByRole("button", { name: "Remove Mia" }).click();
  await hidden(page.getByRole("button", { name: "Remove Mia" }));
});

test("a token is shown once, works, and is revoked", async () => {
  const { page } = visitor;
  await page.goto("/administration/tokens");
  await page.getByLabel("Purpose").fill("for the suite");
  await page.getByRole("button", { name: "Create token" }).click();
  const shown = page.getByRole("alert").filter({ hasText: "shown once" }).or(page.getByText("Copy the token now"));
  await visible(shown);
  const secret = await page.locator("code").filter({ hasText: "folio_" }).textContent();
  expect(secret).toMatch(/^folio_/);
  await page.reload();
  await visible(page.getByRole("button", { name: "Revoke for the suite" }));
  expect(await page.content()).not.toContain(secret ?? "folio_");
  await page.getByRole("button", { name: "Revoke for the suite" }).click();
  await hidden(page.getByRole("button", { name: "Revoke for the suite" }));
});

test("a policy is checked, saved and enforced", async () => {
  const { page } = visitor;
  await page.goto("/administration/policy");
  const editor = page.getByRole("textbox", { name: "Policy", exact: true });
  await editor.fill('{"rules": [{"name": "Incomplete", "tools": ["create_tag"]}]}');
  await visible(page.getByText("needs one of deny, ask and allow"));
  expect(await page.getByRole("button", { name: "Save the policy" }).isDisabled()).toBe(true);
  await editor.fill('{"rules": [{"name": "Tags of admins", "tools": ["create_tag"], "ask": {"roles": ["ROLE_ADMIN"]}}]}');
  await visible(page.getByText("Asks for approval of create_tag, by admins."));
  await page.getByRole("button", { name: "Save the policy" }).click();
  await expect.poll(async () => (await organization.api.policies.getPolicy({})).policy?.rules[0]?.name).toBe("Tags of admins");
  const { documentId } = await uploadText(organization, "policy.txt", "Total: 1.00");
  await page.goto(`/documents/${documentId}?panel=agent`);
  await say(page, "tag of the policy");
  await visible(card(page, "create_tag").getByText("rule “Tags of admins”"));
  await page.getByRole("button", { name: "Approve create_tag" }).click();
  await visible(page.getByText("about the tag is done."));
});

test("a dry run applies a candidate policy to recorded calls, and changes nothing", async () => {
  const { page } = visitor;
  await page.goto("/administration/policy");
  await page.getByRole("textbox", { name: "Policy", exact: true }).fill('{"rules": [{"name": "No tags", "tools": ["create_tag"], "deny": {}}]}');
  await page.getByRole("button", { name: "Test on recorded calls" }).click();
  await visible(page.getByRole("table", { name: "Calls that change" }).getByRole("cell", { name: "create_tag", exact: true }));
  expect((await organization.api.policies.getPolicy({})).policy?.rules.map(({ name }) => name)).toEqual(["Tags of admins"]);
});

test("the platform sets limits and removes them", async () => {
  const { api: server, token } = inject("servers");
  const platform = connect({ server, token });
  const own = await visit(browser);
  await signIn(own.page, token);
  const documents = own.page.getByLabel("Documents", { exact: true }).and(own.page.locator("input"));
  const stored = async () => (await platform.limits.getLimits({})).own?.documents;
  for (const [text, expected] of [["123456", 123456], ["", undefined]] as const) {
    await own.page.goto("/administration/limits");
    await documents.fill(text);
    await own.page.getByRole("button", { name: "Save the limits" }).click();
    await expect.poll(stored).toBe(expected);
  }
  platform.close();
  expect(own.violations.found).toEqual([]);
  await own.context.close();
});

test("the organization is renamed, and gets a retention time", async () => {
  const { page } = visitor;
  await page.goto("/administration/organization");
  await page.getByLabel("Name").and(page.locator("input")).fill("Renamed organization");
  await page.getByLabel("Days without activity").fill("30");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect.poll(async () => (await organization.api.organizations.getOrganization({})).organization).toMatchObject({ name: "Renamed organization", threadRetentionDays: 30 });
});

test("a webhook gets a test event, which is delivered again on request", async () => {
  const { page } = visitor;
  let received = 0;
  const receiver = createServer((_, response) => {
    received += 1;
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  await page.goto("/administration/webhooks");
  await page.getByLabel("URL").and(page.locator("input[type=url]")).fill(url);
  await page.getByRole("button", { name: "Add endpoint" }).click();
  await page.getByRole("button", { name: url, exact: true }).click();
  await page.getByRole("button", { name: "Send a test event" }).click();
  await visible(page.getByRole("dialog").getByText("delivered", { exact: true }));
  await page.getByRole("button", { name: "Deliver again" }).first().click();
  await expect.poll(() => received, { timeout: 30_000 }).toBeGreaterThanOrEqual(2);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: `Delete ${url}` }).click();
  await hidden(page.getByRole("button", { name: `Delete ${url}` }));
  receiver.close();
});

test("the tools of an MCP server are discovered and allowed, and its token is not shown", async () => {
  const { page } = visitor;
  const server = await startMcpServer();
  await page.goto("/administration/mcp");
  await page.getByRole("button", { name: "New MCP server" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name").fill("tickets");
  await form.getByLabel("URL").fill(server.url);
  await form.getByLabel("Token").and(page.locator("input")).fill("a-SECRET-token");
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  await page.getByRole("button", { name: "Tools of tickets" }).click();
  await form.getByRole("combobox", { name: "Access to create_ticket" }).click();
  await page.getByRole("option", { name: "Allowed: writes, waits for approval" }).click();
  await visible(form.getByText("Creates a <b>ticket</b>."));
  await form.getByRole("button", { name: "Save the tools" }).click();
  await hidden(form);
  const stored = async () => (await organization.api.mcpServers.listMcpServers({})).mcpServers[0];
  expect((await stored())?.allowedTools.map(({ name, isWrite }) => [name, isWrite])).toEqual([["create_ticket", true]]);
  expect([...server.credentials]).toEqual(["Bearer a-SECRET-token"]);
  expect(await page.content()).not.toContain("a-SECRET-token");

  await page.getByRole("button", { name: "Edit tickets" }).click();
  await form.getByLabel("Name").fill("helpdesk");
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  expect(await stored()).toMatchObject({ name: "helpdesk", hasToken: true });
  await page.getByRole("button", { name: "Delete helpdesk" }).click();
  await page.getByRole("button", { name: "Confirm: Delete helpdesk" }).click();
  await hidden(page.getByRole("button", { name: "Edit helpdesk" }));
  server.close();
});

test("an MCP server is called with the token of an OAuth client, whose secret is not shown", async () => {
  const { page } = visitor;
  const server = await startMcpServer();
  await page.goto("/administration/mcp");
  await page.getByRole("button", { name: "New MCP server" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name").fill("orders");
  await form.getByLabel("URL").fill(server.url);
  await form.getByText("OAuth client", { exact: true }).click();
  await form.getByLabel("Token endpoint").fill(server.tokenUrl);
  await form.getByLabel("Client id").fill("folio");
  expect(await form.getByRole("button", { name: "Save" }).isDisabled()).toBe(true);
  await form.getByLabel("Client secret").and(page.locator("input")).fill("a-SECRET-of-a-client");
  await form.getByLabel("Scopes").fill("orders:read orders:write");
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  await visible(page.getByRole("table", { name: "MCP servers" }).getByRole("cell", { name: "OAuth client", exact: true }));
  await page.getByRole("button", { name: "Tools of orders" }).click();
  await visible(form.getByText("Creates a <b>ticket</b>."));
  expect([...server.credentials]).toEqual(["Bearer granted"]);
  expect(server.tokenRequests.map(({ client, form }) => [client, form.get("grant_type"), form.get("scope"), form.get("resource")])).toEqual([
    ["folio:a-SECRET-of-a-client", "client_credentials", "orders:read orders:write", server.url],
  ]);
  await page.keyboard.press("Escape");
  await hidden(form);

  // An empty secret keeps the stored one.
  await page.getByRole("button", { name: "Edit orders" }).click();
  await form.getByLabel("Scopes").fill("orders:read");
  await form.getByRole("button", { name: "Save" }).click();
  await hidden(form);
  await page.getByRole("button", { name: "Tools of orders" }).click();
  await expect.poll(() => server.tokenRequests.map(({ client, form }) => [client, form.get("scope")]).at(-1)).toEqual(["folio:a-SECRET-of-a-client", "orders:read"]);
  expect(await page.content()).not.toContain("a-SECRET-of-a-client");
  server.close();
});

test("tags, prompts and schemas are created and edited", async () => {
  const { page } = visitor;
  await page.goto("/tags");
  await page.getByRole("button", { name: "New tag" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("paid");
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await visible(page.getByRole("button", { name: "Edit paid" }));
  await page.goto("/schemas/new");
  await page.getByLabel("Name", { exact: true }).fill("Receipt");
  await page.getByRole("button", { name: "Add a field" }).click();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await visible(page.getByRole("tab", { name: "Revisions" }));
  await page.getByRole("tab", { name: "Test" }).click();
  await page.getByLabel("Data", { exact: true }).fill('{"unknown": 1}');
  await page.getByRole("button", { name: "Test the data" }).click();
  await visible(page.getByRole("alert"));
  await page.goto("/prompts");
  await page.getByRole("button", { name: "New prompt" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("Name").fill("Receipts");
  await form.getByLabel("Instructions").fill("Read the receipt.");
  await form.getByRole("combobox", { name: "Schema" }).click();
  await page.getByRole("option", { name: /Receipt/ }).click();
  await form.getByRole("button", { name: "Save" }).click();
  await visible(page.getByRole("button", { name: "Edit Receipts" }));
  const [prompt] = (await organization.api.prompts.listPrompts({ filter: "name:Receipts" })).prompts;
  expect(prompt?.schemaRevid).toMatch(/^sch_/);
});

test("the audit log and the usage show what happened", async () => {
  const { page } = visitor;
  await newPrompt(organization, "Audited prompt");
  await page.goto("/audit?kind=call_approved");
  await visible(page.getByRole("table", { name: "Audit log" }).getByText("create_tag"));
  await page.goto("/usage");
  await visible(page.getByRole("table", { name: "Usage" }));
});

test("a viewer that opens a view of administrators sees that it has no access", async () => {
  const own = await visit(browser);
  const viewer = await newPerson(organization, "Viewer", v1.Role.VIEWER);
  const { token } = await organization.api.tokens.createToken({ token: { name: "viewer", userId: viewer.userId, role: v1.Role.VIEWER } }).then(({ secret }) => ({ token: secret }));
  await signIn(own.page, token);
  await own.page.goto("/audit");
  await visible(own.page.getByRole("heading", { name: "You have no access to this" }));
  await own.context.close();
});
