// Tests of the clients of both platforms against a scripted server.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import * as node from "folio-client";
import { FolioError, v1, type Approval, type Client, type ErrorCode } from "folio-client";
import * as web from "folio-client/web";
import { broken, event, FakeServer, refusal, TOKEN } from "./fake_server.js";

const RETRY = { attempts: 3, maxDelay: 2_000 };
const { conversation, document: documents, extraction, inbox, job: jobs, tag: tags } = {
  conversation: v1.ConversationService.method,
  document: v1.DocumentService.method,
  extraction: v1.ExtractionService.method,
  inbox: v1.InboxService.method,
  job: v1.JobService.method,
  tag: v1.TagService.method,
};
const stacks = v1.StackService.method;

/** Returns the first items of an iterator. */
async function read<T>(items: AsyncIterable<T>, limit = 1_000): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) {
    found.push(item);
    if (found.length === limit) break;
  }
  return found;
}

/** Asserts that a promise is rejected with an error of the client. */
async function rejects(promise: Promise<unknown>, code: ErrorCode, reason: string): Promise<FolioError> {
  const error: unknown = await promise.then(() => undefined, (error: unknown) => error);
  assert.ok(error instanceof FolioError, String(error));
  assert.deepEqual([error.code, error.reason], [code, reason]);
  return error;
}

const started = event(1, { case: "turnStarted", value: create(v1.TurnStartedSchema, { threadId: "thread" }) });
const delta = (number: number, text: string) =>
  event(number, { case: "textDelta", value: create(v1.TextDeltaSchema, { text }) });
const completed = (number: number, text: string) =>
  event(number, { case: "completed", value: create(v1.CompletedSchema, { text }) });
const pause = event(2, {
  case: "awaitingApproval",
  value: create(v1.AwaitingApprovalSchema, {
    turnId: "turn",
    round: 1,
    pending: [
      {
        callId: "1",
        name: "create_tag",
        argumentsJson: "{}",
        needsApproval: true,
        approvalRequirement: { rule: "four eyes", roles: [v1.Role.ADMIN], notByRequester: true },
      },
    ],
  }),
});
const kinds = (events: v1.Event[]) => events.map((event) => event.kind.case);
const chat = { documentIds: ["doc_1"] };

for (const platform of ["node", "web"] as const) {
  describe(platform, { timeout: 30_000 }, () => {
    let server: FakeServer;
    let client: Client<Uint8Array>;

    beforeEach(async () => {
      server = new FakeServer(platform === "node" ? 2 : 1);
      const address = await server.start();
      const { connect } = platform === "node" ? node : web;
      client = connect({ server: address, token: TOKEN, retry: RETRY }) as Client<Uint8Array>;
    });
    afterEach(() => {
      client.close();
      server.stop();
    });

    test("each service has an attribute", () => {
      const services = Object.values(v1).filter((value) => (value as { kind?: string }).kind === "service");
      const clients = Object.values(client).filter((value) => typeof value === "object" && !("token" in value));
      assert.equal(clients.length, services.length);
    });

    test("calls carry the token and an idempotency key", async () => {
      server.script(tags.createTag, { tag: { tagId: "tag_1" } });
      assert.equal((await client.tags.createTag({ tag: { name: "a" } })).tag?.tagId, "tag_1");
      assert.deepEqual([...server.tokens], [`Bearer ${TOKEN}`]);
      assert.notEqual(server.of<v1.CreateTagRequest>("CreateTag")[0]?.requestId, "");
    });

    test("a call is repeated with the same key after the requested time", async () => {
      const limited = refusal(Code.ResourceExhausted, "QUOTA_EXCEEDED", { retryAfter: 10 });
      server.script(tags.createTag, limited, broken(), {});
      await client.tags.createTag({});
      const keys = server.of<v1.CreateTagRequest>("CreateTag").map((request) => request.requestId);
      assert.equal(keys.length, 3);
      assert.equal(new Set(keys).size, 1);
    });

    test("a refused call throws its error", async () => {
      const violations = [{ field: "tag.name", description: "is missing" }];
      server.script(tags.createTag, refusal(Code.InvalidArgument, "INVALID_FIELD", { violations, details: { limit: "5" } }));
      const error = await rejects(client.tags.createTag({}), "INVALID_ARGUMENT", "INVALID_FIELD");
      assert.deepEqual([error.violations, error.details, error.retryAfter], [violations, { limit: "5" }, undefined]);
      assert.deepEqual([error.text, error.message], ["refused", "refused (INVALID_FIELD)"]);
      assert.equal(server.of("CreateTag").length, 1);
    });

    test("a long delay is an error", async () => {
      server.script(tags.listTags, refusal(Code.ResourceExhausted, "QUOTA_EXCEEDED", { retryAfter: 3_600_000 }));
      const error = await rejects(client.tags.listTags({}), "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED");
      assert.deepEqual([error.retryAfter, server.of("ListTags").length], [3_600_000, 1]);
    });

    test("a list is read page by page", async () => {
      const first = { tags: [{ tagId: "tag_1" }, { tagId: "tag_2" }], nextPageToken: "more" };
      server.script(tags.listTags, first, { tags: [{ tagId: "tag_3" }] });
      const found = await read(client.iterate(client.tags.listTags, { filter: "name:a" }));
      assert.deepEqual(found.map((tag) => tag.tagId), ["tag_1", "tag_2", "tag_3"]);
      const requests = server.of<v1.ListTagsRequest>("ListTags");
      assert.deepEqual(requests.map(({ filter, pageToken }) => [filter, pageToken]), [["name:a", ""], ["name:a", "more"]]);
    });

    test("an aborted stream ends without an error, also while it waits", async () => {
      const item = { change: { case: "item" as const, value: { itemId: "turn_1" } } };
      server.scriptStream(inbox.watchInbox, [item, broken()]);
      const controller = new AbortController();
      const seen: unknown[] = [];
      for await (const change of client.watchInbox("", { signal: controller.signal })) {
        seen.push(change.change.value);
        setTimeout(() => controller.abort(), 20);
      }
      assert.ok(seen.length >= 1);
      assert.deepEqual(await read(client.watchTurn("turn", 0n, undefined, { signal: controller.signal })), []);
      assert.equal(server.of("WatchTurn").length, 0);
    });

    test("a broken chat continues without gap and repetition", async () => {
      server.scriptStream(conversation.chat, [broken()], [started, delta(2, "a"), broken()]);
      server.scriptStream(conversation.watchTurn, [delta(2, "a"), delta(3, "b")], [delta(3, "b"), completed(4, "ab")]);
      const turn = client.chat("hello", { ...chat, model: "m" });
      assert.deepEqual((await read(turn)).map((event) => event.number), [1n, 2n, 3n, 4n]);
      assert.deepEqual([turn.turnId, turn.threadId, turn.lastEvent], ["turn", "thread", 4n]);
      const [first, second] = server.of<v1.ChatRequest>("Chat");
      assert.deepEqual(first, second);
      assert.ok(first?.requestId !== "" && first?.model === "m" && first.documentIds[0] === "doc_1");
      assert.deepEqual(server.of<v1.WatchTurnRequest>("WatchTurn").map((request) => request.fromEvent), [3n, 4n]);
      assert.equal((await turn.completed()).text, "ab");
    });

    test("a refused chat throws its error", async () => {
      server.scriptStream(conversation.chat, [refusal(Code.FailedPrecondition, "TURN_BUSY")]);
      await rejects(read(client.chat("hello", { threadId: "thread" })), "FAILED_PRECONDITION", "TURN_BUSY");
      assert.equal(server.of("Chat").length, 1);
    });

    test("a question has a typed answer", async () => {
      const answerJson = '{"expression": "1+1", "result": 2}';
      const value = create(v1.CompletedSchema, { text: "1+1 = 2", answerType: "CalculationResponse", answerJson });
      const answered = event(2, { case: "completed", value });
      server.scriptStream(conversation.chat, [started, answered], [started, completed(2, "a")]);
      const answer = await client.ask("What is 1 + 1?", { tagIds: ["tag_1"], collectionIds: ["col_1"], model: "m" });
      assert.deepEqual([answer.type, answer.value["result"], answer.text], ["CalculationResponse", 2, "1+1 = 2"]);
      assert.deepEqual([answer.threadId, answer.turnId, answer.credits], ["thread", "turn", 0n]);
      const [request] = server.of<v1.ChatRequest>("Chat");
      assert.deepEqual([request?.profile, request?.text, request?.model], ["assistant", "What is 1 + 1?", "m"]);
      assert.deepEqual(request?.mentions.map((mention) => mention.target.value), ["tag_1", "col_1"]);
      await rejects(client.ask("What?", { threadId: "thread" }), "FAILED_PRECONDITION", "");
    });

    test("a failed turn is resumed", async () => {
      const error = { code: "UNAVAILABLE", reason: "MODEL_TIMEOUT", message: "m" };
      const failed = event(2, { case: "failed", value: create(v1.FailedSchema, { error, retriable: true }) });
      server.scriptStream(conversation.chat, [started, failed]);
      const turn = client.chat("hello", chat);
      await rejects(turn.completed(), "UNAVAILABLE", "MODEL_TIMEOUT");
      server.scriptStream(conversation.resumeTurn, [completed(3, "a")]);
      assert.deepEqual(kinds(await read(client.resume(turn.turnId))), ["completed"]);
    });

    test("the events after an approval are those of the same turn", async () => {
      server.scriptStream(conversation.chat, [started, pause]);
      server.script(conversation.getTurn, { turn: { approvableCallIds: ["1"] } });
      const result = event(3, { case: "toolResult", value: create(v1.ToolResultSchema, { callId: "1" }) });
      // The first stream opens before the decisions are recorded.
      server.scriptStream(conversation.watchTurn, [pause], [result, completed(4, "done")]);
      server.script(conversation.approve, { turnId: "turn", outcome: { case: "completed", value: {} }, eventNumber: 4n });
      const seen: Approval[] = [];
      const approve = (approval: Approval) => {
        seen.push(approval);
        return "approve" as const;
      };
      const events = await read(client.chat("hello", { ...chat, approve }));
      assert.deepEqual(kinds(events), ["turnStarted", "awaitingApproval", "toolResult", "completed"]);
      const facts = seen.map(({ rule, roles, isRequesterExcluded, mayApprove }) => [rule, roles, isRequesterExcluded, mayApprove]);
      assert.deepEqual(facts, [["four eyes", ["admin"], true, true]]);
      const [request] = server.of<v1.ApproveRequest>("Approve");
      assert.deepEqual([request?.continueAutoApproved, request?.decisions[0]?.decision.case], [true, "approved"]);
    });

    test("a turn without a decision ends with its pause", async () => {
      server.scriptStream(conversation.chat, [started, pause]);
      server.script(conversation.getTurn, { turn: {} });
      for (const approve of [undefined, async () => "leave" as const]) {
        const events = await read(client.chat("hello", { ...chat, approve }));
        assert.deepEqual(kinds(events), ["turnStarted", "awaitingApproval"]);
      }
      assert.deepEqual(server.of("Approve"), []);
      await rejects(client.chat("hello", chat).completed(), "FAILED_PRECONDITION", "");
    });

    test("a turn that needs further decisions ends with its pause", async () => {
      server.scriptStream(conversation.chat, [started, pause]);
      server.script(conversation.getTurn, { turn: {} });
      server.scriptStream(conversation.watchTurn, [pause]);
      server.script(conversation.approve, { outcome: { case: "stillAwaiting", value: { round: 1 } } });
      const events = await read(client.chat("hello", { ...chat, approve: () => ({ reject: "no" }) }));
      assert.deepEqual(kinds(events), ["turnStarted", "awaitingApproval"]);
      assert.equal(server.of<v1.ApproveRequest>("Approve")[0]?.decisions[0]?.decision.case, "rejected");
    });

    test("a denied decision throws its error", async () => {
      server.scriptStream(conversation.chat, [started, pause]);
      server.script(conversation.getTurn, { turn: {} });
      server.scriptStream(conversation.watchTurn, [pause]);
      server.script(conversation.approve, refusal(Code.PermissionDenied, "POLICY_DENIED"));
      const turn = client.chat("hello", { ...chat, approve: () => "approve" });
      await rejects(read(turn), "PERMISSION_DENIED", "POLICY_DENIED");
    });

    test("a table is watched with its rows across streams", async () => {
      const response = (change: v1.WatchTableResponse["change"]) => create(v1.WatchTableResponseSchema, { change });
      const stack = response({ case: "stack", value: create(v1.StackSchema, { stackId: "stk_1", etag: "1" }) });
      const row = (stackRowId: string, etag = "1") => create(v1.StackRowSchema, { stackRowId, etag });
      const sent = (stackRowId: string, etag = "1") => response({ case: "row", value: row(stackRowId, etag) });
      const deleted = refusal(Code.NotFound, "NOT_FOUND");
      server.scriptStream(stacks.watchTable, [stack, sent("a", "2"), broken()], [stack], [deleted]);
      const again = { rows: [row("a", "2"), row("c")] };
      server.script(stacks.listStackRows, { rows: [row("a")], nextPageToken: "more" }, { rows: [row("b")] }, again);
      const found = await read(client.watchTable("stk_1"));
      const removed = response({ case: "removedStackRowId", value: "b" });
      assert.deepEqual(found, [stack, sent("a"), sent("b"), sent("a", "2"), stack, sent("c"), removed]);
      server.scriptStream(stacks.watchTable, [deleted]);
      await rejects(read(client.watchTable("stk_1")), "NOT_FOUND", "NOT_FOUND");
    });

    test("a table is filled and exported", async () => {
      server.script(stacks.fillStack, { job: { jobId: "job_1" } });
      assert.equal((await client.fillStack("stk_1", { creditBudget: 5n })).jobId, "job_1");
      const [request] = server.of<v1.FillStackRequest>("FillStack");
      assert.ok(request?.creditBudget === 5n && request.requestId !== "");
      const chunks = ["a,", "b"].map((text) => ({ chunk: new TextEncoder().encode(text) }));
      server.scriptStream(stacks.exportTable, chunks);
      const file = await client.exportTable("stk_1", v1.ExportFormat.CSV);
      assert.equal(new TextDecoder().decode(file), "a,b");
    });

    test("a watch is opened again and reports what was removed meanwhile", async () => {
      type Change = v1.WatchPendingApprovalsResponse["change"];
      const response = (change: Change) => create(v1.WatchPendingApprovalsResponseSchema, { change });
      const waiting = (turnId: string) =>
        response({ case: "pendingApproval", value: create(v1.PendingApprovalSchema, { turnId }) });
      const caughtUp = response({ case: "caughtUp", value: create(v1.CaughtUpSchema) });
      const lifetime = refusal(Code.DeadlineExceeded, "DEADLINE_EXCEEDED");
      const method = conversation.watchPendingApprovals;
      server.scriptStream(method, [waiting("a"), waiting("b"), caughtUp, lifetime], [waiting("b"), caughtUp]);
      const found = await read(client.watchPendingApprovals("user=user_1"), 6);
      const removed = response({ case: "removedTurnId", value: "a" });
      assert.deepEqual(found, [waiting("a"), waiting("b"), caughtUp, waiting("b"), removed, caughtUp]);
    });

    test("a refused watch throws its error", async () => {
      server.scriptStream(inbox.watchInbox, [refusal(Code.PermissionDenied, "ROLE_NOT_ALLOWED")]);
      await rejects(read(client.watchInbox()), "PERMISSION_DENIED", "ROLE_NOT_ALLOWED");
    });

    const reading = (state: v1.DocumentState) =>
      create(v1.WatchDocumentResponseSchema, {
        change: { case: "document", value: create(v1.DocumentStatusSchema, { document: { state } }) },
      });

    test("the text of a document is awaited", async () => {
      const [before, ready] = [reading(v1.DocumentState.PROCESSING), reading(v1.DocumentState.READY)];
      server.scriptStream(documents.watchDocument, [before, broken()], [before, ready]);
      assert.equal((await client.waitForText("d")).state, v1.DocumentState.READY);
    });

    test("a watch ends with the deletion of its document", async () => {
      const deleted = refusal(Code.NotFound, "NOT_FOUND");
      const before = reading(v1.DocumentState.PROCESSING);
      server.scriptStream(documents.watchDocument, [before, deleted]);
      assert.deepEqual(await read(client.watchDocument("d")), [before]);
      await rejects(client.waitForText("d"), "NOT_FOUND", "NOT_FOUND");
      server.scriptStream(documents.watchDocument, [deleted]);
      await rejects(read(client.watchDocument("d")), "NOT_FOUND", "NOT_FOUND");
    });

    const state = (state: v1.JobState, doneItems = 0, resultJson = "") => ({
      job: { jobId: "job_1", state, doneItems, totalItems: 1, items: [{ resultJson }] },
    });

    test("a long extraction is awaited with progress", async () => {
      server.script(extraction.runExtraction, { job: { jobId: "job_1" } });
      const ended = state(v1.JobState.COMPLETED, 1, '{"extraction_id": "ext_1"}');
      server.scriptStream(jobs.watchJob, [state(v1.JobState.RUNNING), broken()], [state(v1.JobState.RUNNING), ended]);
      server.script(extraction.getExtraction, { extraction: { originalJson: "{}" } });
      const seen: number[] = [];
      const found = await client.extract("doc_1", "prompt_1", { progress: (job) => seen.push(job.doneItems) });
      assert.deepEqual([found.originalJson, seen], ["{}", [0, 0, 1]]);
      assert.equal(server.of<v1.GetExtractionRequest>("GetExtraction")[0]?.extractionId, "ext_1");
    });

    test("a short extraction needs no job", async () => {
      server.script(extraction.runExtraction, { extraction: { extractionId: "ext_1" } });
      assert.equal((await client.extract("doc_1", "prompt_1")).extractionId, "ext_1");
    });

    test("a batch selects documents by id or filter", async () => {
      server.script(extraction.runExtractions, { job: { jobId: "job_1" } });
      assert.equal((await client.batch("prompt_1", { documentIds: ["doc_1"] })).jobId, "job_1");
      await client.batch("prompt_1", { documentFilter: "", creditBudget: 5n });
      const [byId, byFilter] = server.of<v1.RunExtractionsRequest>("RunExtractions");
      assert.deepEqual([byId?.documentFilter, byFilter?.documentFilter], [undefined, ""]);
      assert.deepEqual([byId?.creditBudget, byFilter?.creditBudget], [undefined, 5n]);
      server.scriptStream(jobs.watchJob, [state(v1.JobState.COMPLETED, 1)]);
      assert.equal((await client.waitForJob("job_1")).doneItems, 1);
    });

    test("an unreachable server is unavailable", async () => {
      server.stop();
      const { connect } = platform === "node" ? node : web;
      const lost = connect({ server: "127.0.0.1:1", token: TOKEN, retry: { attempts: 2 } });
      const error = await lost.tags.listTags({}).then(() => undefined, (error: unknown) => error);
      assert.ok(error instanceof FolioError && error.isInterruption && error.reason === "", String(error));
      lost.close();
    });
  });
}

const CONTENT = Buffer.alloc(768_000, "0123456789abcdef");

test("node: a file is uploaded with progress and sent again", { timeout: 30_000 }, async () => {
  const server = new FakeServer(2);
  const folder = await mkdtemp(join(tmpdir(), "folio-"));
  const client = node.connect({ server: await server.start(), token: TOKEN, retry: RETRY });
  try {
    const path = join(folder, "invoice.pdf");
    await writeFile(path, CONTENT);
    server.script(documents.uploadDocument, broken(), { document: { documentId: "doc_1" } });
    const seen: [number, number][] = [];
    const progress = (sent: number, size: number) => seen.push([sent, size]);
    const found = await client.upload(path, { tagIds: ["tag_1"], metadata: { year: "2026" }, progress });
    assert.equal(found.documentId, "doc_1");
    const [first, second] = server.of<v1.UploadDocumentRequest[]>("UploadDocument");
    assert.ok(first !== undefined && second !== undefined);
    const content = second.slice(1).map((part) => (part.part.case === "chunk" ? part.part.value : new Uint8Array()));
    assert.ok(Buffer.concat(content).equals(CONTENT));
    assert.deepEqual(first[0], second[0]);
    const description = second[0]?.part.value as v1.DocumentDescription;
    assert.deepEqual([description.name, description.sizeBytes], ["invoice.pdf", BigInt(CONTENT.length)]);
    assert.deepEqual([description.tagIds, description.metadata], [["tag_1"], { year: "2026" }]);
    assert.ok(description.requestId !== "" && description.autoCreate === undefined);
    assert.deepEqual(seen.at(-1), [CONTENT.length, CONTENT.length]);

    server.script(documents.uploadDocument, {});
    await assert.rejects(client.upload(new Uint8Array(3)), /needs a name/);
  } finally {
    client.close();
    server.stop();
    await rm(folder, { recursive: true });
  }
});

test("web: a file is uploaded as a form and sent again", { timeout: 30_000 }, async () => {
  const server = new FakeServer(1);
  const client = web.connect({ server: await server.start(), token: TOKEN, retry: RETRY });
  try {
    server.script(v1.OrganizationService.method.getOrganization, { organization: { organizationId: "org_1" } });
    server.script(documents.getDocument, { document: { documentId: "doc_1" } });
    server.formAnswers = [
      { status: 429, body: '{"detail": "slow down", "code": "QUOTA_EXCEEDED"}', retryAfter: "0.01" },
      { status: 200, body: '{"document": {"document_id": "doc_1"}}' },
    ];
    const seen: [number, number][] = [];
    const progress = (sent: number, size: number) => seen.push([sent, size]);
    const blob = new Blob([CONTENT]);
    const options = { name: "invoice.pdf", tagIds: ["tag_1"], metadata: { year: "2026" }, progress };
    assert.equal((await client.upload(blob, options)).documentId, "doc_1");
    const [first, second] = server.forms;
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(second.path, "/v0/orgs/org_1/documents/multipart");
    assert.equal(second.headers.authorization, `Bearer ${TOKEN}`);
    assert.equal(second.headers["idempotency-key"], first.headers["idempotency-key"]);
    assert.deepEqual([...second.form.keys()], ["name", "tag_ids", "metadata", "file"]);
    assert.deepEqual([second.form.get("tag_ids"), second.form.get("metadata")], ['["tag_1"]', '{"year":"2026"}']);
    const file = second.form.get("file");
    assert.ok(file instanceof Blob && Buffer.from(await file.arrayBuffer()).equals(CONTENT));
    assert.deepEqual(seen.at(-1), [CONTENT.length, CONTENT.length]);

    server.formAnswers = [{ status: 200, body: '{"document": {"document_id": "doc_1"}}' }];
    await client.upload(blob, { name: "a", autoCreate: false, creditBudget: 7n, password: "open" });
    const names = ["auto_create", "credit_budget", "password"];
    const optional = ({ form }: { form: FormData }) => names.map((name) => form.get(name));
    assert.deepEqual(server.forms.map(optional), [[null, null, null], [null, null, null], ["false", "7", "open"]]);
    server.formAnswers = [{ status: 400, body: '{"detail": "Invalid tag IDs: [x]"}' }];
    await rejects(client.upload(blob, { name: "a" }), "INVALID_ARGUMENT", "");
  } finally {
    client.close();
    server.stop();
  }
});
