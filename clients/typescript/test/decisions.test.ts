// Tests of the decisions without I/O.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { create } from "@bufbuild/protobuf";
import { FolioError, InvalidSignature, v1, verifyWebhook, type ErrorCode } from "folio-client";
import { approvals, approveRequest } from "../src/approvals.js";
import { extractionOf } from "../src/connection.js";
import { errorOfMessage } from "../src/errors.js";
import { documentIdOf } from "../src/multipart.js";
import { itemsOf, nextRequest } from "../src/paging.js";
import { randomId } from "../src/random_id.js";
import { Rejoining, RetryPolicy, withRequestId } from "../src/retry.js";
import { authorization, credential, parseAddress } from "../src/transport.js";
import { TurnPosition } from "../src/turn_position.js";
import { WatchedItems } from "../src/watched_items.js";
import { WatchedTable } from "../src/watched_table.js";

test("ids are random, also on a page that was loaded without TLS", () => {
  // Such a page has no `crypto.randomUUID`.
  Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
  try {
    const ids = Array.from({ length: 100 }, () => randomId());
    assert.equal(new Set(ids).size, 100);
    for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/);
  } finally {
    Reflect.deleteProperty(crypto, "randomUUID");
  }
});

test("an address has a scheme", () => {
  assert.equal(parseAddress("127.0.0.1:8080", false), "http://127.0.0.1:8080");
  assert.equal(parseAddress("folio.example:443", true), "https://folio.example");
  assert.equal(parseAddress("http://[::1]:8080/", false), "http://[::1]:8080");
  assert.equal(parseAddress("https://folio.example/api/", false), "https://folio.example/api");
});

test("an invalid address is refused", () => {
  for (const server of ["", "ftp://a", "http://", "a:99999", "http://a?b", "http://user@a"]) {
    assert.throws(() => parseAddress(server, false), /expected HOST:PORT/, server);
  }
  assert.throws(() => parseAddress("http://a:1", true), /require an https:\/\/ address/);
});

test("an invalid token is refused and not repeated in the message", () => {
  assert.equal(authorization(" t \n"), "Bearer t");
  for (const token of ["", " ", "a b", "a\nb", "geheim-ä"]) {
    assert.throws(() => authorization(token), (error: Error) => token.trim() === "" || !error.message.includes(token));
  }
});

test("each call carries the token and the organization", () => {
  assert.deepEqual(credential(undefined, undefined), {});
  assert.deepEqual(credential(" t \n", undefined), { authorization: "Bearer t" });
  assert.deepEqual(credential("t", "org_1"), { authorization: "Bearer t", "folio-organization": "org_1" });
  for (const organization of ["", "a b", "org_ä"]) {
    assert.throws(() => credential("t", organization), /id of the organization/);
  }
});

const failure = (code: ErrorCode, retryAfter?: number, reason = "R") => new FolioError(code, reason, "m", { retryAfter });

test("a call is repeated as the server requests", () => {
  const policy = new RetryPolicy({ attempts: 3, maxDelay: 10_000 });
  assert.equal(policy.delay(failure("RESOURCE_EXHAUSTED", 2_500), 1), 2_500);
  assert.equal(policy.delay(failure("ABORTED", 500), 2), 500);
  assert.equal(policy.delay(failure("RESOURCE_EXHAUSTED", 2_500), 3), undefined, "the attempts are exhausted");
  assert.equal(policy.delay(failure("RESOURCE_EXHAUSTED", 11_000), 1), undefined, "the delay is too long");
  for (const unreachable of [failure("UNAVAILABLE"), failure("ABORTED", undefined, "")]) {
    const delays = [policy.delay(unreachable, 1) ?? 0, policy.delay(unreachable, 2) ?? 0];
    assert.ok(delays[0]! >= 100 && delays[0]! <= 200 && delays[1]! >= 200 && delays[1]! <= 400, String(delays));
  }
  for (const code of ["ABORTED", "NOT_FOUND", "INVALID_ARGUMENT", "INTERNAL", "RESOURCE_EXHAUSTED"] as const) {
    assert.equal(policy.delay(failure(code), 1), undefined, code);
  }
});

test("a stream is opened again with growing delays until the attempts are exhausted", () => {
  const rejoining = new Rejoining(new RetryPolicy({ attempts: 3 }));
  assert.deepEqual([1, 2].map(() => rejoining.delay(failure("UNAVAILABLE"), false)), [200, 400]);
  assert.throws(() => rejoining.delay(failure("UNAVAILABLE"), false), FolioError);
  assert.equal(rejoining.delay(undefined, true), 200, "progress resets the count");
  const delays = Array.from({ length: 10 }, () => rejoining.delay(undefined, false));
  assert.deepEqual([...delays.slice(0, 3), delays.at(-1)], [400, 800, 1_600, 5_000]);
  assert.throws(() => rejoining.delay(undefined, false), /ended before its last message/);
});

test("only an interrupted stream is opened again", () => {
  const rejoining = new Rejoining(new RetryPolicy({ maxDelay: 10_000 }));
  for (const code of ["DEADLINE_EXCEEDED", "INTERNAL", "CANCELLED", "ABORTED", "UNKNOWN"] as const) {
    assert.equal(rejoining.delay(failure(code, undefined, ""), true), 200, code);
  }
  assert.equal(rejoining.delay(failure("RESOURCE_EXHAUSTED", 3_000), true), 3_000);
  for (const final of [failure("INTERNAL"), failure("NOT_FOUND", undefined, ""), failure("UNAVAILABLE", 11_000)]) {
    assert.throws(() => rejoining.delay(final, true), final);
  }
});

test("a request gets an idempotency key once", () => {
  const request = create(v1.CreateTagRequestSchema, { tag: { name: "a" } });
  const first = withRequestId(v1.CreateTagRequestSchema, request) as v1.CreateTagRequest;
  const second = withRequestId(v1.CreateTagRequestSchema, { tag: { name: "a" } }) as v1.CreateTagRequest;
  assert.equal(first.tag?.name, "a");
  assert.ok(/^[0-9a-f]{32}$/.test(first.requestId) && first.requestId !== second.requestId);
  assert.equal(request.requestId, "", "the request of the caller is not changed");
  const own = { requestId: "own" };
  assert.equal(withRequestId(v1.CreateTagRequestSchema, own), own);
  const read = { tagId: "tag_1" };
  assert.equal(withRequestId(v1.GetTagRequestSchema, read), read);
});

test("a page has the messages of its list", () => {
  const effectiveProviders = [{ name: "e" }];
  const page = create(v1.ListProvidersResponseSchema, { providers: [{ name: "p" }], fallbacks: ["m"], effectiveProviders });
  assert.deepEqual(itemsOf(page).map((provider) => provider.name), ["p"]);
  assert.deepEqual(itemsOf(create(v1.ListProvidersResponseSchema, { effectiveProviders })), []);
  assert.deepEqual(itemsOf(create(v1.ListTagsResponseSchema)), []);
  const lists = Object.entries(v1).filter(([name]) => /^List\w+ResponseSchema$/.test(name));
  assert.ok(lists.length > 20);
  for (const [name, schema] of lists) {
    const [items] = (schema as typeof v1.ListTagsResponseSchema).fields;
    assert.ok(items?.number === 1 && items.fieldKind === "list" && items.listKind === "message", name);
  }
});

test("the next page continues after skipped items", () => {
  const more = create(v1.ListTagsResponseSchema, { nextPageToken: "t" });
  assert.deepEqual(nextRequest({ filter: "name:a", skip: 5 }, more), { filter: "name:a", skip: 0, pageToken: "t" });
  const message = create(v1.ListTagsRequestSchema, { filter: "name:a" });
  assert.equal(create(v1.ListTagsRequestSchema, nextRequest(message, more)).pageToken, "t");
  assert.equal(message.pageToken, "");
  assert.equal(nextRequest(message, create(v1.ListTagsResponseSchema)), undefined);
});

const event = (number: number, kind: v1.Event["kind"]) =>
  create(v1.EventSchema, { turnId: "turn", number: BigInt(number), kind });
const delta = (text: string): v1.Event["kind"] => ({ case: "textDelta", value: create(v1.TextDeltaSchema, { text }) });

test("a turn continues after its last event", () => {
  const chat = create(v1.ChatRequestSchema, { text: "hello", requestId: "r" });
  const position = new TurnPosition(chat);
  assert.equal(position.request(), chat);
  const started = create(v1.TurnStartedSchema, { threadId: "thread" });
  assert.ok(position.accept(event(1, { case: "turnStarted", value: started })));
  assert.ok(position.accept(event(2, delta("a"))));
  assert.ok(!position.accept(event(2, delta("a"))), "a repeated event");
  assert.deepEqual([position.turnId, position.threadId, position.closing], ["turn", "thread", undefined]);
  assert.deepEqual(position.request(), create(v1.WatchTurnRequestSchema, { turnId: "turn", fromEvent: 3n }));
  assert.ok(position.accept(event(9, { case: "cancelled", value: create(v1.CancelledSchema) })));
  assert.equal(position.closing?.number, 9n);
  assert.throws(() => position.completed(), /the turn is not completed: cancelled/);
  const snapshot = create(v1.SnapshotSchema, { turn: { threadId: "thread" } });
  assert.ok(position.accept(event(10, { case: "snapshot", value: snapshot })));
  assert.equal(position.closing, undefined, "the turn was resumed");
});

test("a watch and a resumed turn start with their own requests", () => {
  const watch = new TurnPosition(create(v1.WatchTurnRequestSchema, { turnId: "turn", fromEvent: 7n }));
  assert.deepEqual(watch.request(), create(v1.WatchTurnRequestSchema, { turnId: "turn", fromEvent: 7n }));
  const resume = create(v1.ResumeTurnRequestSchema, { turnId: "turn" });
  const position = new TurnPosition(resume);
  assert.equal(position.request(), resume);
  position.accept(event(12, delta("a")));
  assert.deepEqual(position.request(), create(v1.WatchTurnRequestSchema, { turnId: "turn", fromEvent: 13n }));
});

const waiting = create(v1.AwaitingApprovalSchema, {
  turnId: "turn",
  round: 2,
  pending: [
    {
      callId: "1",
      name: "create_tag",
      argumentsJson: '{"name": "ä"}',
      argumentsDigest: "digest",
      access: v1.ToolAccess.READ_WRITE,
      needsApproval: true,
      approvalRequirement: { rule: "four eyes", roles: [v1.Role.ADMIN], notByRequester: true },
    },
    { callId: "2", name: "list_tags" },
    { callId: "3", name: "delete_tag", argumentsDigest: "other", needsApproval: true },
  ],
});

test("an approval states the rule, the roles and an excluded requester", () => {
  const [first, second, ...rest] = approvals(waiting, ["3"]);
  assert.ok(first !== undefined && second !== undefined && rest.length === 0);
  assert.deepEqual([first.tool, first.arguments, first.isWrite], ["create_tag", { name: "ä" }, true]);
  assert.deepEqual([first.rule, first.roles, first.isRequesterExcluded], ["four eyes", ["admin"], true]);
  assert.deepEqual([first.mayApprove, second.mayApprove], [false, true]);
  assert.deepEqual([second.rule, second.roles, second.isRequesterExcluded], ["", [], false]);
});

test("decisions are bound to the arguments", () => {
  const [first, second] = approvals(waiting, []) as [ReturnType<typeof approvals>[0], ReturnType<typeof approvals>[0]];
  const request = approveRequest(waiting, [[first, { edited: { name: "ö" } }], [second, { reject: "no" }]]);
  assert.deepEqual([request?.turnId, request?.round, request?.continueAutoApproved], ["turn", 2, true]);
  const [edited, rejected] = request?.decisions ?? [];
  assert.equal(edited?.argumentsDigest, "digest");
  assert.deepEqual(edited?.decision.value, create(v1.ApprovedEditedSchema, { argumentsJson: '{"name":"ö"}' }));
  assert.deepEqual(rejected?.decision.value, create(v1.RejectedSchema, { reason: "no" }));
  const partly = approveRequest(waiting, [[first, "leave"], [second, "approve"]]);
  assert.deepEqual(partly?.decisions.map((made) => [made.callId, made.decision.case]), [["3", "approved"]]);
  assert.equal(approveRequest(waiting, [[first, "leave"], [second, "leave"]]), undefined);
  assert.deepEqual(approveRequest(waiting, [])?.decisions, [], "a round that only waits to be continued");
});

test("items that a new stream does not send are reported as removed", () => {
  const response = (change: v1.WatchInboxResponse["change"]) => create(v1.WatchInboxResponseSchema, { change });
  const item = (itemId: string) => response({ case: "item", value: create(v1.InboxItemSchema, { itemId }) });
  const caughtUp = response({ case: "caughtUp", value: create(v1.CaughtUpSchema) });
  const items = new WatchedItems<v1.WatchInboxResponse>();
  items.startStream();
  for (const change of [item("a"), item("b"), item("c"), caughtUp]) assert.deepEqual(items.apply(change), [change]);
  items.apply(response({ case: "removedItemId", value: "c" }));
  items.startStream();
  assert.deepEqual(items.apply(item("b")), [item("b")]);
  assert.deepEqual(items.apply(caughtUp), [response({ case: "removedItemId", value: "a" }), caughtUp]);
  assert.deepEqual(items.apply(caughtUp), [caughtUp], "a keep-alive");
});

test("a table sends rows that are new or changed, and all rows after a change of its stack", () => {
  const response = (change: v1.WatchTableResponse["change"]) => create(v1.WatchTableResponseSchema, { change });
  const stack = (etag: string) => response({ case: "stack", value: create(v1.StackSchema, { etag }) });
  const row = (stackRowId: string, etag = "1") => create(v1.StackRowSchema, { stackRowId, etag });
  const table = new WatchedTable();
  const listed = (...rows: v1.StackRow[]) => {
    const sent = rows.filter((listedRow) => table.add(listedRow)).map(({ stackRowId }) => stackRowId);
    return [sent, table.endList()];
  };
  table.startStream();
  assert.ok(table.apply(stack("1")));
  assert.deepEqual(listed(row("a"), row("b"), row("c")), [["a", "b", "c"], []]);
  assert.ok(!table.apply(stack("1")), "a keep-alive");
  assert.ok(!table.apply(response({ case: "row", value: row("b", "2") })));
  assert.ok(!table.apply(response({ case: "removedStackRowId", value: "c" })));
  table.startStream();
  assert.ok(table.apply(stack("1")));
  assert.deepEqual(listed(row("b", "2"), row("d")), [["d"], ["a"]]);
  assert.ok(table.apply(stack("2")));
  assert.deepEqual(listed(row("b", "2")), [["b"], ["d"]]);
});

test("the result of a job is its extraction or its error", () => {
  assert.equal(extractionOf(create(v1.JobSchema, { items: [{ resultJson: '{"extraction_id": "ext_1"}' }] })), "ext_1");
  const error = { code: "NOT_FOUND", reason: "NOT_FOUND", message: "m" };
  assert.throws(() => extractionOf(create(v1.JobSchema, { items: [{ error }] })), { code: "NOT_FOUND" });
  assert.throws(() => extractionOf(create(v1.JobSchema, { jobId: "job_1" })), { code: "CANCELLED" });
});

test("an error of an event is typed", () => {
  const message = create(v1.ErrorSchema, {
    code: "UNAVAILABLE",
    reason: "MODEL_TIMEOUT",
    message: "m",
    retryAfter: { seconds: 1n, nanos: 500_000_000 },
    details: { model: "a" },
  });
  const found = errorOfMessage(message);
  assert.deepEqual([found.code, found.reason, found.retryAfter], ["UNAVAILABLE", "MODEL_TIMEOUT", 1_500]);
  assert.deepEqual(found.details, { model: "a" });
});

test("the answer to a form is a document or an error", () => {
  const answer = (status: number, text: string, retryAfter: string | null = null) => ({ status, text, retryAfter });
  assert.equal(documentIdOf(answer(200, '{"document": {"document_id": "doc_1"}}')), "doc_1");
  const refused = (status: number, text: string, retryAfter: string | null = null) => {
    try {
      documentIdOf(answer(status, text, retryAfter));
    } catch (error) {
      assert.ok(error instanceof FolioError);
      return [error.code, error.reason, error.text, error.retryAfter];
    }
    return assert.fail("the answer is an error");
  };
  const quota = '{"detail": "too much", "code": "QUOTA_EXCEEDED"}';
  assert.deepEqual(refused(429, quota, "2"), ["RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "too much", 2_000]);
  assert.deepEqual(refused(429, quota.replace("}", ', "retry_after_seconds": 3}'))[3], 3_000);
  const invalid = '{"detail": [{"type": "missing", "loc": ["body", "file"], "msg": "is missing"}]}';
  assert.deepEqual(refused(422, invalid), ["INVALID_ARGUMENT", "INVALID_FIELD", "body.file: is missing", undefined]);
  const proxy = ["UNAVAILABLE", "", "the upload failed with HTTP status 502", undefined];
  assert.deepEqual(refused(502, "<html>"), proxy);
  assert.deepEqual(refused(200, "null")[0], "INTERNAL");
});

const BODY = Buffer.from('{"type": "document.ready", "timestamp": "2026-11-22T09:00:00.5Z", "data": {"document_id": "doc_1"}}');

function signed(key: Uint8Array, body: Buffer, age = 0): Record<string, string> {
  const seconds = String(Math.floor(Date.now() / 1_000) - age);
  const signature = createHmac("sha256", key).update(`evt_1.${seconds}.`).update(body).digest("base64");
  return { "Webhook-Id": "evt_1", "Webhook-Timestamp": seconds, "Webhook-Signature": `v1,${signature}` };
}

test("a signed event is returned", () => {
  for (const [secret, key] of [["whsec_AAEC", Buffer.from([0, 1, 2])], ["any text ä", Buffer.from("any text ä")]] as const) {
    for (const headers of [signed(key, BODY), new Headers(signed(key, BODY))]) {
      const found = verifyWebhook(secret, headers, BODY);
      assert.deepEqual([found.id, found.type, found.data], ["evt_1", "document.ready", { document_id: "doc_1" }]);
      assert.equal(found.timestamp.toISOString(), "2026-11-22T09:00:00.500Z");
    }
  }
});

test("an event without a valid signature is refused", () => {
  const key = Buffer.from("key");
  const headers = signed(key, BODY);
  const bytes = (text: string) => Buffer.from(text);
  const refused: [string, Record<string, string>, Buffer][] = [
    ["other", headers, BODY],
    ["key", headers, Buffer.concat([BODY, bytes(" ")])],
    ["key", signed(key, BODY, 302), BODY],
    ["key", signed(key, BODY, -302), BODY],
    ["key", { ...headers, "Webhook-Id": "evt_2" }, BODY],
    ["key", { ...headers, "Webhook-Signature": "v1" }, BODY],
    ["key", { ...headers, "Webhook-Timestamp": "now" }, BODY],
    ["key", {}, BODY],
    ["key", signed(key, Buffer.from([0xff])), Buffer.from([0xff])],
    ["key", signed(key, bytes("[]")), bytes("[]")],
    ["key", signed(key, bytes("")), bytes("")],
    ["key", signed(key, bytes(" ".repeat(70_000))), bytes(" ".repeat(70_000))],
  ];
  for (const [secret, withHeaders, body] of refused) {
    assert.throws(() => verifyWebhook(secret, withHeaders, body), InvalidSignature);
  }
});

test("an invalid secret is refused and not repeated in the message", () => {
  for (const secret of ["whsec_", "whsec_%", ""]) {
    assert.throws(() => verifyWebhook(secret, signed(Buffer.from("key"), BODY), BODY), /^TypeError: invalid secret: expected/);
  }
});
