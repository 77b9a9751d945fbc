import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { refusal, renderPage, type Services } from "./page.js";

const HOSTILE = `<img src=x onerror="window.hacked=1">`;
const CALL = {
  callId: "c1",
  name: "create_tag",
  argumentsJson: JSON.stringify({ name: HOSTILE }),
  argumentsDigest: "d1",
  access: v1.ToolAccess.READ_WRITE,
  needsApproval: true,
  approvalRequirement: { rule: "four eyes", roles: [v1.Role.ADMIN] },
};
const SECOND = { ...CALL, callId: "c2", name: "delete_document", argumentsDigest: "d2", argumentsJson: "{}" };
const TURN = "trn_1";

type Kind = NonNullable<MessageInitShape<typeof v1.EventSchema>["kind"]>;

/** A conversation in memory: the events of its turn, and the streams that wait for further ones. */
class FakeConversation {
  readonly events: v1.Event[] = [];
  readonly chats: v1.ChatRequest[] = [];
  readonly decisions: v1.Decision[] = [];
  readonly cancelled: string[] = [];
  refuse: (() => never) | undefined;
  readonly previews: v1.PreviewToolCallRequest[] = [];
  onPreview: (request: v1.PreviewToolCallRequest) => MessageInitShape<typeof v1.PreviewToolCallResponseSchema> = () => ({ effect: v1.CallEffect.UNKNOWN });
  onApprove: (request: v1.ApproveRequest) => MessageInitShape<typeof v1.ApproveResponseSchema> = () => ({ outcome: { case: "stillAwaiting", value: {} } });
  pending: readonly (typeof CALL)[] = [];
  threadExists = false;
  messages: MessageInitShape<typeof v1.MessageSchema>[] = [];
  readonly usage = { inputTokens: 1200n, outputTokens: 5n, modelCalls: 2, credits: 7n };
  /** The filters by which schemas were listed. */
  readonly searches: string[] = [];
  #wake: (() => void)[] = [];

  emit(...kinds: Kind[]): void {
    for (const kind of kinds) this.events.push(create(v1.EventSchema, { turnId: TURN, number: BigInt(this.events.length + 1), kind }));
    for (const wake of this.#wake.splice(0)) wake();
  }

  pause(...calls: (typeof CALL)[]): void {
    this.pending = calls;
    this.emit({ case: "awaitingApproval", value: { turnId: TURN, round: 1, pending: calls } });
  }

  async *stream(from: bigint, signal: AbortSignal): AsyncGenerator<{ event: v1.Event }> {
    let next = Math.max(Number(from) - 1, 0);
    // A paused turn repeats its pause.
    if (next >= this.events.length && this.events.at(-1)?.kind.case === "awaitingApproval") next = this.events.length - 1;
    for (;;) {
      for (; next < this.events.length; next++) {
        const event = this.events[next];
        if (event === undefined) return;
        yield { event };
        const isClosing = ["awaitingApproval", "completed", "failed", "cancelled", "expired"].includes(event.kind.case ?? "");
        if (isClosing && next === this.events.length - 1) return;
      }
      await new Promise<void>((resolve) => {
        this.#wake.push(resolve);
        signal.addEventListener("abort", () => resolve());
      });
      if (signal.aborted) return;
    }
  }

  get turn(): MessageInitShape<typeof v1.TurnSchema> | undefined {
    if (this.pending.length === 0) return undefined;
    const decided = new Set(this.decisions.map(({ callId }) => callId));
    const approvableCallIds = this.pending.map(({ callId }) => callId).filter((id) => !decided.has(id));
    return { turnId: TURN, threadId: "thr_1", status: v1.TurnStatus.AWAITING_APPROVAL, userText: "hello", pending: [...this.pending], approvableCallIds, nextEvent: BigInt(this.events.length + 1) };
  }

  services(): Services {
    const never = async function* () {
      yield { change: { case: "caughtUp" as const, value: {} } };
      await new Promise(() => undefined);
    };
    const stream = this.stream.bind(this);
    return {
      document: {
        getDocument: () => ({ document: { documentId: "doc_1", name: "a.txt", mediaType: "text/plain", state: v1.DocumentState.READY } }),
        watchDocument: never,
      },
      thread: {
        listThreads: ({ filter }) => ({ threads: this.threadExists && filter.endsWith("profile=document") ? [{ threadId: "thr_1", title: HOSTILE }] : [] }),
        getThread: () => {
          const turn = this.turn;
          return { thread: { threadId: "thr_1" }, messages: [...this.messages], ...(turn && { openTurn: turn }) };
        },
      },
      model: { listModels: () => ({ models: [{ name: "m1" }, { name: "m2" }] }) },
      prompt: { listPrompts: () => ({}) },
      schema: {
        listSchemas: ({ filter }) => {
          this.searches.push(filter);
          return filter === "" ? {} : { schemas: [{ schemaRevid: "sch_9.1", name: HOSTILE }] };
        },
      },
      tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid" }] }) },
      conversation: {
        listTools: () => ({ tools: [{ name: "create_tag", access: v1.ToolAccess.READ_WRITE }] }),
        chat: (request, { signal }) => {
          this.chats.push(request);
          if (request.ifPending !== v1.IfPending.SUPERSEDE) this.refuse?.();
          this.threadExists = true;
          return stream(0n, signal);
        },
        watchTurn: ({ fromEvent }, { signal }) => stream(fromEvent, signal),
        getTurn: ({ turnId }) => ({ turn: this.turn ?? { turnId, usage: this.usage } }),
        approve: (request) => {
          const response = this.onApprove(request);
          this.decisions.push(...request.decisions);
          return response;
        },
        previewToolCall: (request) => {
          this.previews.push(request);
          return this.onPreview(request);
        },
        cancelTurn: ({ turnId }) => {
          this.cancelled.push(turnId);
          this.emit({ case: "cancelled", value: {} });
          return {};
        },
      },
    };
  }

  open() {
    return renderPage(this.services(), "/documents/doc_1?panel=agent");
  }
}

const STARTED: Kind[] = [{ case: "turnStarted", value: { threadId: "thr_1", model: "m1" } }, { case: "roundStarted", value: { round: 1, attempt: 1 } }];
const say = (text: string): Kind => ({ case: "textDelta", value: { text } });
const message = () => screen.findByLabelText("Message to the agent");

test("an answer is streamed as Markdown, and its thread is in the address", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  expect(fake.chats[0]).toMatchObject({ text: "hello", documentIds: ["doc_1"], autoApprove: false, threadId: "" });
  fake.emit(...STARTED, { case: "thinkingDelta", value: { text: "hmm" } }, say("The **total"));
  expect(await screen.findByText(/Thinking|Thought/)).toBeTruthy();
  expect(await screen.findByRole("button", { name: "Stop" })).toBeTruthy();
  fake.emit(say("** is 5"), { case: "roundFinished", value: { round: 1, model: "m2" } });
  fake.emit({ case: "completed", value: { text: "The **total** is 5", usage: { inputTokens: 1200n, outputTokens: 5n, modelCalls: 1 } } });
  expect((await screen.findByText("total")).tagName).toBe("STRONG");
  expect(await screen.findByText(/tokens read/)).toBeTruthy();
  expect(screen.getByText("answered by m2")).toBeTruthy();
  expect(window.location.search).toContain("thread=thr_1");
  expect(await screen.findByRole("button", { name: "Send" })).toBeTruthy();
});

test("a conversation of a document is one of its agents, and lists no conversations of others", async () => {
  const fake = new FakeConversation();
  const filters: string[] = [];
  const base = fake.services();
  const { user } = renderPage({ ...base, thread: { ...base.thread, listThreads: ({ filter }) => { filters.push(filter); return {}; } } }, "/documents/doc_1?panel=agent");
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats[0]).toMatchObject({ profile: "document", documentIds: ["doc_1"], mentions: [] }));
  fake.emit(...STARTED, say("hi"), { case: "completed", value: { text: "hi" } });
  // The answer is Markdown, and the turn has no steps.
  expect(await screen.findByText("hi")).toBeTruthy();
  expect(screen.queryByRole("list", { name: "Steps" })).toBeNull();
  expect([...new Set(filters)].sort()).toEqual(["document=doc_1 profile=coordinator", "document=doc_1 profile=document"]);
});

test("a waiting call is approved, and the turn continues", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } });
  fake.pause(CALL);
  expect(await screen.findByText("May be approved by admins (rule “four eyes”).")).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
  fake.onApprove = () => {
    fake.pending = [];
    fake.emit(
      { case: "toolStarted", value: { callId: "c1", name: "create_tag" } },
      { case: "toolResult", value: { callId: "c1", name: "create_tag", status: v1.CallStatus.OK, content: HOSTILE } },
      { case: "roundStarted", value: { round: 2, attempt: 1 } },
      say("created"),
      { case: "completed", value: { text: "created" } },
    );
    return { outcome: { case: "completed", value: { text: "created" } } };
  };
  const approve = await screen.findByRole<HTMLButtonElement>("button", { name: "Approve create_tag" });
  await waitFor(() => expect(approve.disabled).toBe(false));
  await user.click(approve);
  expect(await screen.findByText("created")).toBeTruthy();
  expect(fake.decisions.map(({ callId, argumentsDigest, decision }) => [callId, argumentsDigest, decision.case])).toEqual([["c1", "d1", "approved"]]);
  expect(screen.getByText("Done")).toBeTruthy();
  expect("hacked" in window).toBe(false);
});

test("a call that waits for the store is shown until it continues", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  const call = { callId: "c1", name: "create_tag" };
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } }, { case: "toolStarted", value: call }, { case: "waitingForStore", value: call });
  expect(await screen.findByText("Waits for the store")).toBeTruthy();
  fake.emit({ case: "toolResult", value: { ...call, status: v1.CallStatus.OK, content: "{}" } }, { case: "roundStarted", value: { round: 2, attempt: 1 } }, say("created"), { case: "completed", value: { text: "created" } });
  expect(await screen.findByText("created")).toBeTruthy();
  expect(screen.queryByText("Waits for the store")).toBeNull();
});

test("pending approvals survive a reload, and are rejected with a reason and edited", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL, SECOND] } });
  fake.pause(CALL, SECOND);
  fake.onPreview = ({ argumentsJson }) => ({ effect: v1.CallEffect.UNKNOWN, problem: argumentsJson === "{}" ? "name is missing" : "", argumentsRefused: argumentsJson === "{}" });
  const { user } = fake.open();
  expect(await screen.findByRole("button", { name: "Approve all 2 calls" })).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Reject delete_document" }));
  await user.type(screen.getByLabelText("Reason for the model"), "keep it");
  await user.click(screen.getByRole("button", { name: "Reject call" }));
  await waitFor(() => expect(fake.decisions).toHaveLength(1));
  expect(fake.decisions[0]?.decision).toMatchObject({ case: "rejected", value: { reason: "keep it" } });
  expect(await screen.findByText(/^Rejected\. The round runs/)).toBeTruthy();

  const edit = await screen.findByRole<HTMLButtonElement>("button", { name: "Edit create_tag" });
  await waitFor(() => expect(edit.disabled).toBe(false));
  await user.click(edit);
  const input = await screen.findByLabelText("Arguments");
  await user.clear(input);
  await user.type(input, "[[]");
  expect(await screen.findByText("The arguments must be a JSON object.")).toBeTruthy();
  const approve = screen.getByRole<HTMLButtonElement>("button", { name: "Approve edited call" });
  expect(approve.disabled).toBe(true);
  await user.clear(input);
  await user.type(input, "{{}");
  // The server checks the arguments with the schema of the tool.
  expect(await screen.findByText("name is missing")).toBeTruthy();
  expect(input.getAttribute("aria-invalid")).toBe("true");
  expect(await screen.findByText("The server refuses these arguments. Correct them to approve the call.")).toBeTruthy();
  expect(approve.disabled).toBe(true);
  await user.clear(input);
  await user.type(input, '{{"name":"paid"}');
  await waitFor(() => expect(approve.disabled).toBe(false));
  await user.click(approve);
  await waitFor(() => expect(fake.decisions).toHaveLength(2));
  expect(fake.decisions[1]?.decision).toMatchObject({ case: "approvedEdited", value: { argumentsJson: '{"name":"paid"}' } });
});

test("a mention is searched on the server by what is typed", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "about ");
  await user.type(screen.getByLabelText("Mentions", { selector: "input" }), "img src");
  await user.click(await screen.findByRole("option", { name: HOSTILE, hidden: true }));
  expect(fake.searches).toContain('name:"img src"');
  expect(document.querySelector("img[src=x]")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Send" }));
  await waitFor(() => expect(fake.chats[0]?.mentions.map(({ target }) => target)).toEqual([{ case: "schemaRevid", value: "sch_9.1" }]));
});

test("the key @ moves to the mentions, and writes an address within a word", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "write to ann@b.example ");
  expect((await message() as HTMLTextAreaElement).value).toBe("write to ann@b.example ");
  await user.type(await message(), "@");
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText("Mentions", { selector: "input" })));
  expect((await message() as HTMLTextAreaElement).value).toBe("write to ann@b.example ");
});

test("a call that writes without a decision is an approved card", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  const { approvalRequirement: _, ...automatic } = { ...CALL, needsApproval: false };
  const read = { ...automatic, callId: "c2", name: "list_tags", argumentsDigest: "d2", argumentsJson: "{}", access: v1.ToolAccess.READ_ONLY };
  const done = (callId: string, name: string): Kind => ({ case: "toolResult", value: { callId, name, status: v1.CallStatus.OK, content: "{}" } });
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [automatic, read] } }, done("c1", "create_tag"), done("c2", "list_tags"));
  fake.emit({ case: "roundStarted", value: { round: 2, attempt: 1 } }, say("created"), { case: "completed", value: { text: "created" } });
  expect(await screen.findByText("created")).toBeTruthy();
  expect(screen.getByText("2 automatic tool calls")).toBeTruthy();
  const cardOf = (name: string) => within(screen.getByLabelText(`Tool call ${name}`));
  expect(cardOf("create_tag").getByText("Approved automatically")).toBeTruthy();
  expect(cardOf("list_tags").queryByText("Approved automatically")).toBeNull();
});

test("the usage of an earlier turn is read on demand", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  // The server sends the newest message first.
  fake.messages = [
    { count: 2, turnId: "trn_0", kind: { case: "assistant", value: { text: "the answer" } } },
    { count: 1, turnId: "trn_0", kind: { case: "user", value: { text: "a question" } } },
  ];
  const { user } = fake.open();
  expect(await screen.findByText("the answer")).toBeTruthy();
  expect(screen.queryByText(/tokens read/)).toBeNull();
  await user.click(screen.getByRole("button", { name: "Usage" }));
  expect(await screen.findByText(/tokens read, 5 written, 2 model calls, 7 credits$/)).toBeTruthy();
});

test("while calls wait, sending supersedes them explicitly", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } });
  fake.pause(CALL);
  const { user } = fake.open();
  await screen.findByRole("button", { name: "Approve create_tag" });
  await user.type(await message(), "other{Enter}");
  expect(fake.chats).toHaveLength(0);
  await user.click(screen.getByRole("button", { name: "Supersede the waiting calls and send" }));
  await waitFor(() => expect(fake.chats[0]).toMatchObject({ text: "other", threadId: "thr_1", ifPending: v1.IfPending.SUPERSEDE }));
});

test("a refused message keeps its text, and the action of the error sends it again", async () => {
  const fake = new FakeConversation();
  fake.refuse = () => { throw refusal(Code.FailedPrecondition, "TURN_PENDING"); };
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  expect(await screen.findByText("Calls wait for a decision")).toBeTruthy();
  expect((await message() as HTMLTextAreaElement).value).toBe("hello");
  await user.click(screen.getByRole("button", { name: "Supersede the calls" }));
  await waitFor(() => expect(fake.chats.at(-1)).toMatchObject({ text: "hello", ifPending: v1.IfPending.SUPERSEDE }));
});

test("a full thread continues in a new one with the same text", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.refuse = () => { throw refusal(Code.FailedPrecondition, "THREAD_FULL"); };
  const { user } = fake.open();
  await waitFor(async () => expect((await screen.findByLabelText<HTMLInputElement>("Conversation", { selector: "input" })).value).toBe(HOSTILE));
  await user.type(await message(), "more{Enter}");
  await user.click(await screen.findByRole("button", { name: "New conversation" }));
  fake.refuse = undefined;
  expect((await message() as HTMLTextAreaElement).value).toBe("more");
  await user.click(screen.getByRole("button", { name: "Send" }));
  await waitFor(() => expect(fake.chats.at(-1)).toMatchObject({ text: "more", threadId: "", documentIds: ["doc_1"] }));
});

test("a refused approval shows the approvers, and the card offers the decision again", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } });
  fake.pause(CALL);
  fake.onApprove = () => { throw refusal(Code.PermissionDenied, "POLICY_DENIED"); };
  const { user } = fake.open();
  const approve = await screen.findByRole<HTMLButtonElement>("button", { name: "Approve create_tag" });
  await waitFor(() => expect(approve.disabled).toBe(false));
  await user.click(approve);
  await user.click(await screen.findByRole("button", { name: "Show who may approve" }));
  expect(document.activeElement?.id).toBe("call-c1");
  expect(screen.getByRole("button", { name: "Approve create_tag" })).toBeTruthy();
});

test("tasks of delegated agents show their ends, and their logs on demand", async () => {
  const fake = new FakeConversation();
  const group = { callId: "c1", groupId: "grp_1", tasks: [{ number: 1, agent: "document", threadId: "thr_2" }, { number: 2, agent: HOSTILE, threadId: "thr_3" }] };
  const inner = { callId: "c9", groupId: "grp_2", tasks: [{ number: 1, agent: "document", tool: "list_tags", threadId: "thr_4" }] };
  const run = { callId: "c1", name: "run_tasks", argumentsJson: "{}", access: v1.ToolAccess.READ_ONLY };
  const of = fake.services();
  const { user } = renderPage({
    ...of,
    thread: {
      ...of.thread,
      getThread: (request, context) => {
        if (request.threadId === "thr_3") throw refusal(Code.NotFound, "NOT_FOUND");
        if (request.threadId !== "thr_2") return of.thread?.getThread?.(request, context) ?? {};
        return {
          messages: [
            { count: 2, turnId: "trn_2", kind: { case: "assistant" as const, value: { text: HOSTILE, calls: [{ id: "c9", name: "run_tasks", argumentsJson: "{}" }] } } },
            { count: 1, turnId: "trn_2", kind: { case: "user" as const, value: { text: "find the total" } } },
          ],
          taskGroups: [inner],
          openTurn: { turnId: "trn_2", status: v1.TurnStatus.AWAITING_APPROVAL },
        };
      },
    },
  }, "/documents/doc_1?panel=agent");
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [run] } }, { case: "toolStarted", value: { callId: "c1", name: "run_tasks" } }, { case: "tasksStarted", value: { group } });
  expect(await screen.findAllByText("In progress")).toHaveLength(2);
  expect(screen.getByText(`2. Agent ${HOSTILE}`)).toBeTruthy();
  fake.emit({ case: "taskEnded", value: { callId: "c1", groupId: "grp_1", task: { number: 2, agent: HOSTILE, threadId: "thr_3" }, status: v1.TaskStatus.NOT_STARTED } });
  expect(await screen.findByText("Not started")).toBeTruthy();
  expect(screen.getAllByText("In progress")).toHaveLength(1);

  await user.click(screen.getByRole("button", { name: "Log of task 2" }));
  expect(await screen.findByText(/^The task has no log/)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Log of task 1" }));
  const log = within(await screen.findByRole("region", { name: "Log of the task" }));
  expect(log.getByText("find the total")).toBeTruthy();
  expect(log.getByRole("link", { name: "inbox" }).getAttribute("href")).toBe("/inbox");
  // The tasks of a task are in its log.
  expect(log.getByText("1. Tool list_tags")).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();

  const content = JSON.stringify({ group_id: "grp_1", tasks: [{ task: 1, status: "completed", summary: "The total is 5" }, { task: 2, status: "not_started", summary: "refused" }] });
  fake.emit({ case: "toolResult", value: { callId: "c1", name: "run_tasks", status: v1.CallStatus.OK, content } }, { case: "roundStarted", value: { round: 2, attempt: 1 } }, say("all read"), { case: "completed", value: { text: "all read" } });
  expect(await screen.findByText("all read")).toBeTruthy();
  expect(await screen.findByText("The total is 5")).toBeTruthy();
  expect(screen.queryByText("In progress")).toBeNull();
});

test("a new conversation may have the agent that divides a request into tasks", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "compare the pages");
  await user.click(screen.getByRole("switch", { name: "Divide into tasks" }));
  await user.click(screen.getByRole("button", { name: "Send" }));
  await waitFor(() => expect(fake.chats[0]).toMatchObject({ text: "compare the pages", profile: "coordinator", documentIds: ["doc_1"] }));
  fake.emit(...STARTED, say("done"), { case: "completed", value: { text: "done" } });
  expect(await screen.findByText("done")).toBeTruthy();
  expect(screen.queryByRole("switch", { name: "Divide into tasks" })).toBeNull();
  // The agent of a conversation does not change.
  await user.type(await message(), "more{Enter}");
  await waitFor(() => expect(fake.chats[1]).toMatchObject({ text: "more", threadId: "thr_1", profile: "" }));
});

test("the agent is stopped", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  fake.emit(...STARTED, say("long"));
  await user.click(await screen.findByRole("button", { name: "Stop" }));
  expect(await screen.findByText("The turn was cancelled.")).toBeTruthy();
  expect(fake.cancelled).toEqual([TURN]);
});

test("the stream of a hidden tab is closed, and continues without a gap", async () => {
  const fake = new FakeConversation();
  const { user } = fake.open();
  await user.type(await message(), "hello{Enter}");
  await waitFor(() => expect(fake.chats).toHaveLength(1));
  fake.emit(...STARTED, say("one "));
  expect(await screen.findByText("one")).toBeTruthy();
  const show = (visibilityState: string) => {
    Object.defineProperty(document, "visibilityState", { value: visibilityState, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  show("hidden");
  fake.emit(say("two "), say("three"));
  show("visible");
  expect(await screen.findByText("one two three")).toBeTruthy();
  expect(fake.chats).toHaveLength(1);
});

test("a waiting call shows its effect, and the effect of edited arguments", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } });
  fake.pause(CALL);
  fake.onPreview = ({ argumentsJson }) => ({
    effect: v1.CallEffect.UPDATES,
    targetKind: "schema",
    targetName: argumentsJson === "" ? HOSTILE : "Edited",
    changes: [{ path: "/name", oldJson: '"old"', newJson: JSON.stringify(HOSTILE) }],
    changeCount: 600,
    prompts: { count: 1n, items: [{ id: "prm_1", name: HOSTILE }] },
    documents: { count: 50n, hasMore: true, items: [{ id: "doc_2", name: "b.pdf" }] },
    problem: argumentsJson === "" ? "" : "the name is taken",
  });
  const { user } = fake.open();
  const effect = within(await screen.findByRole("region", { name: "Effect" }));
  expect(await effect.findByText(`Updates the schema “${HOSTILE}”.`)).toBeTruthy();
  expect(effect.getByText("- old").tagName).toBe("DEL");
  expect(effect.getByText(`+ ${HOSTILE}`).tagName).toBe("INS");
  expect(effect.getByText("The preview contains 1 of 600 differences.")).toBeTruthy();
  expect(effect.getByText("Affects 1 prompt.")).toBeTruthy();
  expect(effect.getByText("Affects more than 50 documents.")).toBeTruthy();
  expect(effect.getByText("b.pdf").closest("a")?.getAttribute("href")).toBe("/documents/doc_2");
  expect(document.querySelector("img[src=x]")).toBeNull();
  expect(fake.previews).toMatchObject([{ turnId: TURN, callId: "c1", argumentsJson: "" }]);

  const edit = await screen.findByRole<HTMLButtonElement>("button", { name: "Edit create_tag" });
  await waitFor(() => expect(edit.disabled).toBe(false));
  await user.click(edit);
  const input = await screen.findByLabelText("Arguments");
  await user.clear(input);
  await user.click(input);
  await user.paste('{"name":');
  await user.paste('"paid"}');
  expect(await effect.findByText("the name is taken")).toBeTruthy();
  expect(fake.previews.map(({ argumentsJson }) => argumentsJson)).toEqual(["", '{"name":"paid"}']);
});

test("a failed preview does not prevent the decision, and is read again", async () => {
  const fake = new FakeConversation();
  fake.threadExists = true;
  fake.emit(...STARTED, { case: "toolCalls", value: { calls: [CALL] } });
  fake.pause(CALL);
  fake.onPreview = () => { throw refusal(Code.Internal, "INTERNAL", "store broken"); };
  const { user } = fake.open();
  const effect = within(await screen.findByRole("region", { name: "Effect" }));
  expect(await effect.findByText("store broken")).toBeTruthy();
  const approve = await screen.findByRole<HTMLButtonElement>("button", { name: "Approve create_tag" });
  await waitFor(() => expect(approve.disabled).toBe(false));
  fake.onPreview = () => ({ effect: v1.CallEffect.NOTHING });
  await user.click(effect.getByRole("button", { name: "Try again" }));
  expect(await effect.findByText("Changes nothing.")).toBeTruthy();
});
