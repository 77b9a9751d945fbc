import { screen, within } from "@testing-library/react";
import axe from "axe-core";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { renderPage, SESSION, type Services } from "./page.js";

const never = async function* () {
  yield { change: { case: "caughtUp" as const, value: {} } };
  await new Promise(() => undefined);
};
const CALL = { callId: "c1", name: "create_tag", argumentsJson: "{}", needsApproval: true };
const STACK = { stackId: "stk_1", name: "Invoices", etag: "e1", documentCount: 2, columns: [{ name: "Total", type: v1.StackColumnType.NUMBER, unit: "EUR", required: true }, { name: "Kind", type: v1.StackColumnType.ENUM, enumValues: ["a"] }] };
const SERVICES: Services = {
  document: {
    listDocuments: () => ({ documents: [{ documentId: "doc_1", name: "a.pdf", tagIds: ["tag_1"] }], totalSize: 1 }),
    getDocument: () => ({ document: { documentId: "doc_1", name: "a.pdf", mediaType: "application/pdf", state: v1.DocumentState.READY, textGeneration: "g", pages: 2 } }),
    getPageWords: () => ({ width: 100, height: 100, words: [{ text: "word", boundingBox: { left: 0, top: 0, right: 0.5, bottom: 0.1 } }] }),
    getPageImage: async function* () { yield { chunk: new Uint8Array([1]) }; },
    getDocumentStructure: () => ({ sections: [{ sectionId: "s1", level: 1, title: "Terms", firstPage: 1, lastPage: 2 }], tables: [{ sectionId: "s1", page: 1, rows: [{ cells: ["a"] }] }] }),
    proposeSplit: () => ({ parts: [{ firstPage: 1, lastPage: 1, name: "a" }, { firstPage: 2, lastPage: 2, name: "b" }] }),
    watchDocument: never,
  },
  extraction: { listExtractions: () => ({ extractions: [{ extractionId: "ext_1", originalJson: '{"total": 5, "items": [{"name": "pen"}]}', documentId: "doc_1" }] }) },
  thread: { listThreads: () => ({}) },
  account: { getAccount: () => ({ user: { userId: "usr_1", name: "Ada", email: "ada@a.example", platform: true } }), listAccountTokens: () => ({ tokens: [{ tokenId: "tok_2", name: "laptop" }] }), listAccountSessions: () => ({ sessions: [{ sessionId: "tok_3", current: true }] }) },
  conversation: {
    listTools: () => ({}),
    previewToolCall: () => ({ effect: v1.CallEffect.CREATES, targetKind: "tag", changes: [{ path: "/name", newJson: '"paid"' }, { path: "/color", newJson: '"#fff"' }], changeCount: 2, documents: { count: 1n, items: [{ id: "doc_1", name: "a.pdf" }] } }),
    getTurn: () => ({ turn: { approvableCallIds: ["c1"] } }),
  },
  inbox: { listInboxItems: () => ({ items: [{ itemId: "trn_1", kind: v1.InboxItemKind.APPROVAL, subject: { case: "approval", value: { turnId: "trn_1", documentIds: ["doc_1"], calls: [CALL] } } }] }), watchInbox: never },
  schema: { listSchemas: () => ({ schemas: [{ schemaId: "sch_1", name: "Invoice" }] }), validateSchema: () => ({ valid: true }) },
  prompt: { listPrompts: () => ({ prompts: [{ promptId: "prm_1", name: "Read" }] }) },
  tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid", color: "#00aa00" }] }) },
  dictionary: { listDictionaryEntries: () => ({ dictionaryEntries: [{ dictionaryEntryId: "dic_1", term: "MY", expansion: "Malaysia", tags: ["asia"] }] }) },
  link: { listMissingLinks: () => ({ links: [{ target: "annex.pdf", documentIds: ["doc_1"] }] }) },
  collection: { listCollections: () => ({ collections: [{ collectionId: "col_1", name: "Contracts", tagIds: ["tag_1"], metadata: { country: "MY" } }] }) },
  stack: {
    listStacks: () => ({ stacks: [{ stackId: "stk_1", name: "Invoices", documentCount: 2 }] }),
    getStack: () => ({ stack: STACK }),
    listStackRows: () => ({ rows: [{ stackRowId: "row_1", stackId: "stk_1", documentId: "doc_1", documentName: "a.pdf", cells: [{ column: "Total", valueJson: "5", state: v1.StackCellState.FILLED, confidence: 0.5, waiting: true, citation: { page: 1, quote: "5" } }] }], totalSize: 1 }),
    watchTable: async function* () { yield { change: { case: "stack" as const, value: STACK } }; await new Promise(() => undefined); },
  },
  retrieval: { search: () => ({ passages: [{ documentId: "doc_1", documentName: "a.pdf", page: 1, text: "the total", lexical: { rank: 1 }, highlights: [{ start: 4, end: 9 }] }], dense: { gaps: [{ description: "no vectors" }] } }) },
  model: { listModels: () => ({ models: [{ name: "m1" }] }) },
  job: { listJobs: () => ({ jobs: [{ jobId: "job_1", kind: "batch", state: v1.JobState.RUNNING, totalItems: 2 }] }) },
  usage: { getBalance: () => ({ available: 5n }), getUsage: () => ({ rows: [{ day: "2026-01-01", credits: 1n }], total: {} }) },
  audit: { listAuditEntries: () => ({ entries: [{ entryId: "1", kind: v1.AuditKind.CALL_DENIED, argumentsJson: "{}" }] }) },
  policy: { getPolicy: () => ({ policy: { rules: [{ name: "r", ruling: { case: "deny", value: {} } }] } }) },
  organization: { listMembers: () => ({ members: [{ userId: "usr_1", name: "Ada", role: v1.Role.ADMIN }] }), getOrganization: () => ({ organization: { name: "Alpha" } }), listOrganizations: () => ({ organizations: [{ organizationId: "org_1", name: "Alpha" }] }) },
  provider: { listProviders: () => ({ providers: [{ name: "vendor", models: [{ name: "m1" }] }] }) },
  mcpServer: { listMcpServers: () => ({ mcpServers: [{ mcpServerId: "mcp_1", name: "files" }] }), discoverMcpTools: () => ({ mcpTools: [{ name: "search", description: "Finds" }] }) },
  user: { listUsers: () => ({ users: [{ userId: "usr_1", name: "Ada" }] }) },
  token: { listTokens: () => ({ tokens: [{ tokenId: "tok_1", name: "ci" }] }) },
  limit: { getLimits: () => ({}) },
};

// jsdom computes no colors and no layout: contrast is measured in a real browser.
const RULES = { "color-contrast": { enabled: false }, "target-size": { enabled: false } };

test.each([
  ["/", "Documents"],
  ["/documents/doc_1", "total: 5"],
  ["/documents/doc_1?panel=agent", "Message to the agent"],
  ["/documents/doc_1?panel=outline", "Go to Terms"],
  ["/documents/doc_1?panel=split", "Make 2 documents"],
  ["/search", "Words or a question"],
  ["/search?q=total", "words 1"],
  ["/assistant", "Message to the agent"],
  ["/assistant?about=documents", "Choose the documents of the conversation."],
  ["/collections", "Edit Contracts"],
  ["/stacks", "Invoices"],
  ["/stacks/stk_1", "Filled, waits"],
  ["/stacks/stk_1?panel=agent", "Message to the agent"],
  ["/stacks/stk_1?panel=conflicts", "Find conflicts"],
  ["/dictionary", "Edit MY"],
  ["/links", "annex.pdf"],
  ["/inbox", "Creates the tag."],
  ["/schemas", "Invoice"],
  ["/schemas/new", "Add a field"],
  ["/prompts", "Edit Read"],
  ["/prompts?prompt=prm_1", "Instructions"],
  ["/account", "Revoke laptop"],
  ["/tags", "Edit paid"],
  ["/batches", "Progress 0%"],
  ["/usage", "Usage"],
  ["/audit", "Audit log"],
  ["/administration/members", "Remove Ada"],
  ["/administration/tokens", "Revoke ci"],
  ["/administration/policy", "Move r up"],
  ["/administration/limits", "Save the limits"],
  ["/administration/organization", "Save"],
  ["/administration/providers", "Test vendor"],
  ["/administration/mcp", "Tools of files"],
  ["/administration/organizations", "Credit of Alpha"],
  ["/administration/users", "Edit Ada"],
])("axe finds no violation in %s", async (path, content) => {
  const { container } = renderPage(SERVICES, path);
  await screen.findAllByText((text, element) => text === content || element?.getAttribute("aria-label") === content);
  const { violations } = await axe.run(document, { rules: RULES });
  expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`)).toEqual([]);
  expect(container.textContent).not.toBe("");
});

test.each([
  ["/dictionary", "Edit MY", "Save"],
  ["/collections", "Edit Contracts", "Save"],
  ["/stacks", "New stack", "Create the stack"],
  ["/stacks/stk_1", "Columns", "Save the columns"],
  ["/stacks/stk_1", "Settings", "Save"],
  ["/administration/providers", "Edit vendor", "Save"],
  ["/administration/providers", "Models of vendor", "Save the models"],
  ["/administration/mcp", "Tools of files", "Save the tools"],
  ["/administration/mcp", "Edit files", "Save"],
  ["/administration/organizations", "Credit of Alpha", "Grant the credits"],
  ["/administration/organizations", "Delete Alpha", "Delete the organization"],
  ["/administration/users", "Edit Ada", "Save"],
])("axe finds no violation in the form of %s: %s", async (path, opener, submit) => {
  const { user } = renderPage(SERVICES, path);
  await user.click(await screen.findByRole("button", { name: opener }));
  await within(await screen.findByRole("dialog")).findByRole("button", { name: submit });
  const { violations } = await axe.run(document, { rules: RULES });
  expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`)).toEqual([]);
});

test("axe finds no violation in the sign-in", async () => {
  renderPage({}, "/", null);
  await screen.findByRole("heading", { name: "Sign in to Folio" });
  const { violations } = await axe.run(document, { rules: RULES });
  expect(violations.map(({ id }) => id)).toEqual([]);
  expect(SESSION.token).not.toBe("");
});
