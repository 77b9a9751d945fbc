// Names, texts and answers that the server returns are text in each view.
import { waitFor } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { formatOf } from "../src/schemas/properties.js";
import { renderPage, SESSION, type Services } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>`;
const JSON_TEXT = JSON.stringify({ [HOSTILE]: HOSTILE });
const pending = () => new Promise<never>(() => undefined);
const tag = { listTags: () => ({ tags: [{ tagId: "tag_1", name: HOSTILE, description: HOSTILE, color: HOSTILE }] }) };
const schema = {
  listSchemas: () => ({ schemas: [{ schemaId: "sch_1", schemaRevid: "sch_1.1", revision: 1, name: HOSTILE, etag: "e" }] }),
  getSchemaRevision: () => ({ schemaRevision: { schemaId: "sch_1", schemaRevid: "sch_1.1", revision: 1, name: HOSTILE, responseFormatJson: formatOf("x", { type: "object", properties: { [HOSTILE]: { type: "string", description: HOSTILE } } }) } }),
  listSchemaRevisions: () => ({}),
  validateSchema: () => ({ valid: false, violations: [{ path: HOSTILE, message: HOSTILE }] }),
};
const prompt = { listPrompts: () => ({ prompts: [{ promptId: "prm_1", promptRevid: "prm_1.1", name: HOSTILE, content: HOSTILE, model: HOSTILE, tagIds: ["tag_1"] }] }) };
const account = { getAccount: () => ({ user: { userId: "usr_1", name: HOSTILE, email: HOSTILE, platform: true } }), listAccountTokens: () => ({ tokens: [{ tokenId: "tok_1", name: HOSTILE }] }) };
const STACK = { stackId: "stk_1", name: HOSTILE, description: HOSTILE, etag: "e1", columns: [{ name: HOSTILE, type: v1.StackColumnType.TEXT, unit: HOSTILE, description: HOSTILE }] };
const watchDocument = async function* () {
  yield { change: { case: "caughtUp" as const, value: {} } };
  await pending();
};

const VIEWS: readonly (readonly [path: string, services: Services])[] = [
  ["/schemas", { schema }],
  ["/schemas/sch_1", { schema, prompt }],
  ["/prompts", { prompt, tag, schema }],
  ["/prompts?prompt=prm_1", { prompt, tag, schema, model: { listModels: () => ({ models: [{ name: HOSTILE }] }) } }],
  ["/tags", { tag }],
  ["/inbox", {
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE } }) },
    conversation: { listTools: () => ({}), getTurn: () => ({ turn: { turnId: "trn_1", userText: HOSTILE, approvableCallIds: ["c1"] } }) },
    inbox: {
      listInboxItems: () => ({
        items: [
          { itemId: "trn_1", kind: v1.InboxItemKind.APPROVAL, subject: { case: "approval" as const, value: { turnId: "trn_1", threadId: "thr_1", documentIds: ["doc_1"], calls: [{ callId: "c1", name: HOSTILE, argumentsJson: JSON_TEXT, needsApproval: true, approvalRequirement: { rule: HOSTILE } }] } } },
          { itemId: "prp_1", kind: v1.InboxItemKind.PROPOSAL, subject: { case: "proposal" as const, value: { proposalId: "prp_1", documentId: "doc_1", documentType: HOSTILE } } },
        ],
      }),
      watchInbox: watchDocument,
    },
  }],
  ["/batches?job=job_1", {
    job: {
      listJobs: () => ({ jobs: [{ jobId: "job_1", kind: HOSTILE, state: v1.JobState.FAILED }] }),
      getJob: () => ({ job: { jobId: "job_1", kind: HOSTILE, state: v1.JobState.FAILED, error: { message: HOSTILE } } }),
      watchJob: async function* () {
        yield { job: { jobId: "job_1", kind: HOSTILE, state: v1.JobState.FAILED } };
        await pending();
      },
      listJobItems: () => ({ items: [{ number: 1, subject: HOSTILE, state: v1.JobItemState.FAILED, error: { message: HOSTILE } }, { number: 2, subject: "doc_1", state: v1.JobItemState.DONE, resultJson: '{"extraction_id":"ext_1"}' }] }),
    },
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE } }) },
    extraction: { getExtraction: () => ({ extraction: { extractionId: "ext_1", originalJson: JSON_TEXT } }) },
  }],
  ["/documents/doc_1", {
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: "a.txt", mediaType: "text/plain", state: v1.DocumentState.READY, textGeneration: "g1" } }), getDocumentText: () => ({}), watchDocument },
    extraction: { listExtractions: () => ({ extractions: [{ extractionId: "ext_1", documentId: "doc_1", originalJson: JSON_TEXT, model: HOSTILE, failure: HOSTILE, documentType: { name: HOSTILE }, checks: [{ check: HOSTILE, outcome: v1.CheckOutcome.FAILED, left: 1 }] }] }) },
  }],
  ["/documents/doc_1?panel=outline", {
    document: {
      getDocument: () => ({ document: { documentId: "doc_1", name: "a.txt", mediaType: "text/plain", state: v1.DocumentState.READY, textGeneration: "g1" } }),
      getDocumentText: () => ({}),
      getDocumentStructure: () => ({ sections: [{ sectionId: "s1", level: 1, title: HOSTILE, firstPage: 1, lastPage: 1 }] }),
      watchDocument,
    },
  }],
  ["/search?q=a", {
    tag,
    retrieval: { search: () => ({ passages: [{ documentId: HOSTILE, documentName: HOSTILE, text: HOSTILE, sectionTitles: [HOSTILE], page: 1, highlights: [{ start: 2, end: 6 }] }], dense: { gaps: [{ description: HOSTILE }] } }) },
  }],
  ["/collections", { tag, collection: { listCollections: () => ({ collections: [{ collectionId: "col_1", name: HOSTILE, description: HOSTILE, tagIds: ["tag_1", HOSTILE], metadata: { [HOSTILE]: HOSTILE } }] }) } }],
  ["/stacks", { tag, stack: { listStacks: () => ({ stacks: [{ stackId: "stk_1", name: HOSTILE, description: HOSTILE, rule: { tagIds: [HOSTILE], metadata: { [HOSTILE]: HOSTILE } } }] }) } }],
  ["/stacks/stk_1", {
    stack: {
      getStack: () => ({ stack: STACK }),
      listStackRows: () => ({ rows: [{ stackRowId: "row_1", stackId: "stk_1", documentId: "doc_1", documentName: HOSTILE, cells: [{ column: HOSTILE, valueJson: JSON.stringify(HOSTILE), state: v1.StackCellState.FILLED, citation: { page: 1, quote: HOSTILE } }] }] }),
      watchTable: async function* () { yield { change: { case: "stack" as const, value: STACK } }; await pending(); },
    },
    job: { listJobs: () => ({ jobs: [{ jobId: "job_1", inputJson: '{"stack":"stk_1"}', state: v1.JobState.RUNNING }] }), getJob: () => ({ job: { jobId: "job_1", state: v1.JobState.RUNNING, error: { message: HOSTILE } } }) },
  }],
  ["/assistant?thread=thr_1", {
    thread: {
      listThreads: () => ({ threads: [{ threadId: "thr_1", title: HOSTILE, documentIds: ["doc_1"] }] }),
      getThread: () => ({ thread: { threadId: "thr_1" }, messages: [{ count: 2, turnId: "trn_1", kind: { case: "assistant" as const, value: { text: HOSTILE } } }] }),
    },
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE } }) },
    conversation: { listTools: () => ({}), getTurn: () => ({ turn: { turnId: "trn_1", answerType: "AnswerResponse", answerJson: JSON.stringify({ question: HOSTILE, answer: HOSTILE, sources: [HOSTILE], confidence: HOSTILE, passages: [{ document_id: HOSTILE, document_name: HOSTILE, section: HOSTILE, quote: HOSTILE, page: HOSTILE }] }) } }) },
    tag,
  }],
  ["/dictionary", { dictionary: { listDictionaryEntries: () => ({ dictionaryEntries: [{ dictionaryEntryId: "dic_1", term: HOSTILE, expansion: HOSTILE, disambiguation: HOSTILE, tags: [HOSTILE] }] }) } }],
  ["/links", { link: { listMissingLinks: () => ({ links: [{ target: HOSTILE, documentIds: ["doc_1"] }] }) } }],
  ["/usage", { usage: { getBalance: () => ({}), getUsage: () => ({ rows: [{ model: HOSTILE, credits: 1n }], total: {} }) } }],
  ["/audit", { audit: { listAuditEntries: () => ({ entries: [{ entryId: "1", kind: v1.AuditKind.CALL_DENIED, userId: HOSTILE, subject: HOSTILE, targetKind: HOSTILE, targetId: HOSTILE, outcome: HOSTILE, argumentsJson: JSON_TEXT }] }) } }],
  ["/account", { account }],
  ["/administration/members", { organization: { listMembers: () => ({ members: [{ userId: "usr_2", name: HOSTILE, role: v1.Role.MEMBER }] }) } }],
  ["/administration/tokens", { token: { listTokens: () => ({ tokens: [{ tokenId: "tok_1", name: HOSTILE }] }) } }],
  ["/administration/policy", { policy: { getPolicy: () => ({ policy: { rules: [{ name: HOSTILE, tools: [HOSTILE], ruling: { case: "deny" as const, value: {} } }] } }) } }],
  ["/administration/organization", { organization: { getOrganization: () => ({ organization: { organizationId: "org_1", name: HOSTILE } }) } }],
  ["/administration/providers", { provider: { listProviders: () => ({ providers: [{ name: HOSTILE, baseUrl: HOSTILE }], platformProviders: [HOSTILE] }) } }],
  ["/administration/mcp", { mcpServer: { listMcpServers: () => ({ mcpServers: [{ mcpServerId: "mcp_1", name: HOSTILE, url: HOSTILE }] }) } }],
  ["/administration/webhooks", { webhookEndpoint: { listWebhookEndpoints: () => ({ webhookEndpoints: [{ webhookEndpointId: "whe_1", url: HOSTILE, eventTypes: [HOSTILE] }] }) } }],
  ["/administration/organizations", { account, organization: { listOrganizations: () => ({ organizations: [{ organizationId: "org_9", name: HOSTILE }] }) } }],
  ["/administration/users", { account, user: { listUsers: () => ({ users: [{ userId: "usr_2", name: HOSTILE, email: HOSTILE }] }) } }],
];

/** Returns all texts that the page shows, also those in inputs. */
function shownText(): string {
  const inputs = [...document.body.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>("input, textarea")];
  return [document.body.textContent, ...inputs.map(({ value }) => value)].join(" ");
}

test.each(VIEWS)("hostile content is text in %s", async (path, services) => {
  renderPage(services, path);
  await waitFor(() => expect(shownText()).toContain("window.hacked=1"));
  expect(document.body.querySelector("img, script, iframe, object, embed, [onerror], [onload]")).toBeNull();
  expect([...document.links].filter(({ protocol }) => protocol === "javascript:")).toEqual([]);
  expect("hacked" in window).toBe(false);
});

test("hostile names of organizations and of the visitor are text in the navigation", async () => {
  renderPage({}, "/tags", { ...SESSION, memberships: SESSION.memberships.map((one) => ({ ...one, name: HOSTILE })), user: { userId: "usr_1", name: HOSTILE } });
  await waitFor(() => expect(document.body.innerHTML).toContain("window.hacked=1"));
  expect(document.body.querySelector("img, script, [onerror]")).toBeNull();
});
