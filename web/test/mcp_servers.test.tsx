import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { changeOf, isComplete, scopesOf, valuesOf } from "../src/administration/mcp_credentials.js";
import { accessOf, allowedTools, toolNote } from "../src/administration/mcp_tools.js";
import { choose, refusal, renderPage, type Implementation } from "./page.js";

const HOSTILE = "<img src=x onerror=alert(1)>";
const { NOT_ALLOWED, ALLOWED, CHANGED } = v1.McpToolState;
const tool = (name: string, state: v1.McpToolState, readOnlyHint = false) =>
  create(v1.McpToolSchema, { name, state, readOnlyHint, digest: `d-${name}`, description: HOSTILE, inputSchemaJson: "{}" });
const TOOLS = [tool("search", ALLOWED, true), tool("send", ALLOWED), tool("changed", CHANGED), tool("new", NOT_ALLOWED)];
const VALUES = {
  mcpServerId: "mcp_1", name: "files", url: "https://m.example/mcp", hasToken: true, enabled: true, etag: "e1",
  allowedTools: [{ name: "search" }, { name: "send", isWrite: true }, { name: "changed", isWrite: true }],
};
const SERVER = create(v1.McpServerSchema, VALUES);

test("tools keep their access, and a changed tool must be allowed again", () => {
  const access = accessOf(SERVER, TOOLS);
  expect([...access]).toEqual([["search", "read"], ["send", "write"], ["changed", "none"], ["new", "none"]]);
  expect(allowedTools(TOOLS, access)).toEqual([{ name: "search", digest: "d-search", isWrite: false }, { name: "send", digest: "d-send", isWrite: true }]);
  expect(allowedTools(TOOLS, new Map([["gone", "read"]]))).toEqual([]);
});

test("a tool has a note if its text changed, or if it may write without approval", () => {
  const notes = TOOLS.map((one) => toolNote(one, "none")).map((note) => note !== "");
  expect(notes).toEqual([false, false, true, false]);
  expect([toolNote({ state: NOT_ALLOWED, readOnlyHint: false }, "read"), toolNote({ state: NOT_ALLOWED, readOnlyHint: true }, "read"), toolNote({ state: NOT_ALLOWED, readOnlyHint: false }, "write")].map((note) => note !== "")).toEqual([true, false, false]);
});

function page(mcpServer: Implementation<typeof v1.McpServerService>) {
  return renderPage({ mcpServer: { listMcpServers: () => ({ mcpServers: [SERVER] }), ...mcpServer } }, "/administration/mcp");
}

test("tools are discovered and allowed with their digests", async () => {
  const updates: v1.UpdateMcpServerRequest[] = [];
  const { user } = page({ discoverMcpTools: () => ({ mcpTools: TOOLS }), updateMcpServer: (request) => { updates.push(request); return {}; } });
  await user.click(await screen.findByRole("button", { name: "Tools of files" }));
  const form = within(await screen.findByRole("dialog"));
  await choose(user, await form.findByRole("combobox", { name: "Access to new" }), "Allowed: writes, waits for approval");
  await choose(user, form.getByRole("combobox", { name: "Access to search" }), "Not allowed");
  expect(form.getAllByText(HOSTILE)).toHaveLength(4);
  expect(document.querySelector("img")).toBeNull();
  await user.click(form.getByRole("button", { name: "Save the tools" }));
  await waitFor(() => expect(updates).toHaveLength(1));
  expect(updates[0]?.updateMask?.paths).toEqual(["allowed_tools"]);
  expect(updates[0]?.mcpServer?.etag).toBe("e1");
  expect(updates[0]?.mcpServer?.allowedTools.map(({ name, digest, isWrite }) => [name, digest, isWrite])).toEqual([["send", "d-send", true], ["new", "d-new", true]]);
});

test("a server that does not answer has its error, and is called again when the form opens", async () => {
  let isDown = true;
  const { user } = page({
    discoverMcpTools: () => {
      if (isDown) throw refusal(Code.FailedPrecondition, "MCP_SERVER_FAILED", "the server did not answer");
      return {};
    },
  });
  await user.click(await screen.findByRole("button", { name: "Tools of files" }));
  expect(await screen.findByText("the server did not answer")).toBeTruthy();
  isDown = false;
  await user.click(screen.getByRole("button", { name: "Close" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.click(screen.getByRole("button", { name: "Tools of files" }));
  expect(await screen.findByText("The server offers no tools.")).toBeTruthy();
});

test("a server is created, changed and deleted, and its token is not shown", async () => {
  const created: v1.CreateMcpServerRequest[] = [];
  const updates: v1.UpdateMcpServerRequest[] = [];
  const deleted: v1.DeleteMcpServerRequest[] = [];
  const { user } = page({
    createMcpServer: (request) => { created.push(request); return {}; },
    updateMcpServer: (request) => { updates.push(request); return {}; },
    deleteMcpServer: (request) => { deleted.push(request); return {}; },
  });
  await user.click(await screen.findByRole("button", { name: "New MCP server" }));
  let form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "a b");
  expect(form.getByText("1 to 64 letters, digits, “-” or “_”")).toBeTruthy();
  await user.clear(form.getByLabelText(/^Name/));
  await user.type(form.getByLabelText(/^Name/), "mail");
  await user.type(form.getByLabelText(/^URL/), "https://n.example/mcp");
  await user.type(form.getByLabelText("Token"), "secret");
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(created.map(({ mcpServer }) => [mcpServer?.name, mcpServer?.url, mcpServer?.token, mcpServer?.enabled])).toEqual([["mail", "https://n.example/mcp", "secret", true]]));

  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.click(screen.getByRole("button", { name: "Edit files" }));
  form = within(await screen.findByRole("dialog"));
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(updates.map(({ mcpServer, updateMask }) => [mcpServer?.etag, updateMask?.paths])).toEqual([["e1", ["name", "url"]]]));

  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.click(screen.getByRole("switch", { name: "Agents use files" }));
  await waitFor(() => expect(updates.at(-1)?.updateMask?.paths).toEqual(["enabled"]));
  await user.click(screen.getByRole("button", { name: "Delete files" }));
  await user.click(screen.getByRole("button", { name: "Confirm: Delete files" }));
  await waitFor(() => expect(deleted.map(({ mcpServerId, etag }) => [mcpServerId, etag])).toEqual([["mcp_1", "e1"]]));
});

const CLIENT = { tokenUrl: "https://a.example/token", clientId: "folio", clientSecret: "", scopes: ["read", "write"] };
const WITH_CLIENT = create(v1.McpServerSchema, { ...VALUES, hasToken: false, oauth: CLIENT });

test("a credential is a token or an OAuth client, and a form never repeats stored secrets", () => {
  expect(changeOf(valuesOf(SERVER), SERVER)).toEqual({ fields: { name: "files", url: "https://m.example/mcp", token: "" }, paths: ["name", "url"] });
  expect(changeOf({ ...valuesOf(SERVER), isTokenDeleted: true, token: "x" }, SERVER).paths).toEqual(["name", "url", "token"]);
  const kept = changeOf(valuesOf(WITH_CLIENT), WITH_CLIENT);
  expect([kept.fields.oauth, kept.paths]).toEqual([CLIENT, ["name", "url", "oauth"]]);
  // Without a client in the request, the mask removes the stored one.
  const removed = changeOf({ ...valuesOf(WITH_CLIENT), credential: "token" }, WITH_CLIENT);
  expect([removed.fields.oauth, removed.paths]).toEqual([undefined, ["name", "url", "oauth"]]);
  expect(changeOf({ ...valuesOf(WITH_CLIENT), credential: "token", token: "t" }, WITH_CLIENT).paths).toEqual(["name", "url", "token"]);
});

test("a client needs its secret when it is new or has another token endpoint", () => {
  const values = valuesOf(WITH_CLIENT);
  expect(isComplete(values, WITH_CLIENT)).toBe(true);
  expect(isComplete({ ...values, tokenUrl: "https://b.example/token" }, WITH_CLIENT)).toBe(false);
  expect(isComplete(values, SERVER)).toBe(false);
  expect(isComplete({ ...values, clientSecret: "s" }, undefined)).toBe(true);
  expect(isComplete({ ...values, clientId: "a b" }, WITH_CLIENT)).toBe(false);
  expect(scopesOf(" a  b\n")).toEqual({ scopes: ["a", "b"] });
  for (const bad of ['a "b"', "x".repeat(129), "é", "s ".repeat(33)]) expect(scopesOf(bad)).toHaveProperty("problem");
});

test("an OAuth client of a server is stored, and its secret is not shown", async () => {
  const created: v1.CreateMcpServerRequest[] = [];
  const { user } = page({ createMcpServer: (request) => { created.push(request); return {}; } });
  await user.click(await screen.findByRole("button", { name: "New MCP server" }));
  const form = within(await screen.findByRole("dialog"));
  await user.type(form.getByLabelText(/^Name/), "mail");
  await user.type(form.getByLabelText(/^URL/), "https://n.example/mcp");
  await user.click(form.getByRole("radio", { name: "OAuth client" }));
  const save = form.getByRole<HTMLButtonElement>("button", { name: "Save" });
  await user.type(form.getByLabelText(/^Token endpoint/), "https://a.example/token");
  await user.type(form.getByLabelText(/^Client id/), "folio");
  expect(save.disabled).toBe(true);
  await user.type(form.getByLabelText(/^Client secret/), "s3cret");
  await user.type(form.getByLabelText(/^Scopes/), "read write");
  await user.click(save);
  await waitFor(() => expect(created[0]?.mcpServer?.oauth).toMatchObject({ tokenUrl: "https://a.example/token", clientId: "folio", clientSecret: "s3cret", scopes: ["read", "write"] }));
  expect(created[0]?.mcpServer?.token).toBe("");
  expect(document.body.textContent).not.toContain("s3cret");
});
