import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { render } from "@testing-library/react";
import { MantineProvider } from "@mantine/core";
import { v1 } from "folio-client";
import { describe, expect, test } from "vitest";
import { blocksOf } from "../src/agent/blocks.js";
import { approversOf, editedArguments, editVerdict, problemsOf, summaryOf } from "../src/agent/calls.js";
import { affectedSentence, effectSentence, linesOfValue } from "../src/agent/effect.js";
import { entriesOf, groupsOf, imagesOf, messagesOf } from "../src/agent/history.js";
import { acceptedFiles, attached } from "../src/agent/images.js";
import { Markdown } from "../src/agent/markdown.js";
import { beginsMention, mentionOf, withChosen } from "../src/agent/mentions.js";
import { newestFirst } from "../src/agent/queries.js";
import { taskStatusOf, tasksOf } from "../src/agent/tasks.js";
import { afterEvents, startedTurn, usageSentence } from "../src/agent/turn_state.js";

let number = 0;
const event = (kind: MessageInitShape<typeof v1.EventSchema>["kind"]) =>
  create(v1.EventSchema, { turnId: "trn_1", number: BigInt(++number), ...(kind && { kind }) });
const CALL = { callId: "c1", name: "create_tag", argumentsJson: '{"name":"paid"}', needsApproval: true };

describe("the state of a turn", () => {
  test("collects deltas, and a later attempt voids those of its round", () => {
    const state = afterEvents(startedTurn("hi"), [
      event({ case: "turnStarted", value: { threadId: "thr_1", model: "m" } }),
      event({ case: "roundStarted", value: { round: 1, attempt: 1 } }),
      event({ case: "thinkingDelta", value: { text: "hm" } }),
      event({ case: "textDelta", value: { text: "lost" } }),
      event({ case: "roundStarted", value: { round: 1, attempt: 2 } }),
      event({ case: "textDelta", value: { text: "a" } }),
      event({ case: "textDelta", value: { text: "b" } }),
      event({ case: "roundFinished", value: { round: 1, model: "fallback" } }),
    ]);
    expect(state).toMatchObject({ userText: "hi", threadId: "thr_1", model: "m", phase: "running" });
    expect(state.rounds.map(({ text, thinking, model }) => [text, thinking, model])).toEqual([["ab", "", "fallback"]]);
  });

  test("waits with its calls and continues with their results", () => {
    const waiting = afterEvents(startedTurn("hi"), [
      event({ case: "roundStarted", value: { round: 1 } }),
      event({ case: "toolCalls", value: { calls: [CALL] } }),
      event({ case: "awaitingApproval", value: { turnId: "trn_1", round: 1, pending: [CALL] } }),
    ]);
    expect([waiting.phase, waiting.waiting?.round, waiting.rounds[0]?.calls.length]).toEqual(["awaiting", 1, 1]);
    const delayed = afterEvents(waiting, [
      event({ case: "toolStarted", value: { callId: "c1", name: "create_tag" } }),
      event({ case: "waitingForStore", value: { callId: "c1", name: "create_tag" } }),
    ]);
    expect([...(delayed.rounds[0]?.delayed ?? [])]).toEqual(["c1"]);
    const done = afterEvents(delayed, [
      event({ case: "toolResult", value: { callId: "c1", status: v1.CallStatus.OK, content: "{}" } }),
      event({ case: "roundStarted", value: { round: 2 } }),
      event({ case: "textDelta", value: { text: "done" } }),
      event({ case: "completed", value: { text: "done" } }),
    ]);
    expect([done.phase, done.waiting, done.rounds.length]).toEqual(["completed", undefined, 2]);
    expect(done.rounds[0]?.results.get("c1")?.status).toBe(v1.CallStatus.OK);
    expect(done.rounds[0]?.delayed.size).toBe(0);
    expect(done.rounds[1]?.text).toBe("done");
  });

  test("comes from a snapshot, and the answer of a missed round from the closing event", () => {
    const turn = { turnId: "trn_1", threadId: "thr_1", status: v1.TurnStatus.RUNNING, model: "m", userText: "q", rounds: [{ round: 1, calls: [CALL], results: [{ callId: "c1", status: v1.CallStatus.REJECTED, content: "" }] }] };
    const state = afterEvents(startedTurn("old"), [event({ case: "snapshot", value: { turn } }), event({ case: "completed", value: { text: "answer" } })]);
    expect(state).toMatchObject({ userText: "q", phase: "completed" });
    expect(state.rounds.map(({ text }) => text)).toEqual(["", "answer"]);
  });

  test.each(["cancelled", "expired", "superseded"] as const)("%s is an end", (phase) => {
    expect(afterEvents(startedTurn(""), [event({ case: phase, value: {} } as never)]).phase).toBe(phase);
  });
});

test("a turn keeps the images of its message, and a stored one has those in its thread", () => {
  const image = create(v1.MessageImageSchema, { imageId: "img_1" });
  const started = event({ case: "turnStarted", value: { threadId: "thr_1", model: "m" } });
  const snapshot = event({ case: "snapshot", value: { turn: { turnId: "trn_1", userText: "hi" } } });
  expect(afterEvents(startedTurn("hi", [image]), [started, snapshot]).userImages).toEqual([image]);
  const messages = ["trn_1", ""].map((turnId) => create(v1.MessageSchema, { turnId, count: 1, kind: { case: "user", value: { text: "hi", images: [image] } } }));
  expect([imagesOf(messages, "trn_1"), imagesOf(messages, "trn_2"), imagesOf(messages, "")]).toEqual([[image], [], []]);
  expect(entriesOf(messages, "")[0]).toMatchObject({ images: [{ imageId: "img_1" }] });
  expect(attached([image])).toMatchObject([{ key: "img_1", image, file: undefined }]);
});

test("a message accepts files with images up to its bounds", () => {
  const files = ["a", "b", "c"].map((name) => new File([], name, { type: "image/png" }));
  expect(acceptedFiles(files, 0)).toEqual({ accepted: files, problems: [] });
  expect(acceptedFiles(files, 2)).toEqual({ accepted: files.slice(0, 2), problems: ["A message has at most 4 images."] });
  expect(acceptedFiles(files, 4).accepted).toEqual([]);
  const others = Array.from({ length: 9 }, (_, index) => new File([], `${index % 2}.svg`, { type: "image/svg+xml" }));
  expect(acceptedFiles([...others, ...files], 1)).toEqual({ accepted: files, problems: ["0.svg", "1.svg"].map((name) => `${name} is not a PNG, JPEG or WebP image.`) });
});

test("the messages of a thread are entries with the results of calls, without the open turn", () => {
  const messages = [
    { count: 1, turnId: "t1", kind: { case: "user" as const, value: { text: "q" } } },
    { count: 1, turnId: "t1", kind: { case: "assistant" as const, value: { text: "", calls: [{ id: "c1", name: "x", argumentsJson: "{}" }] } } },
    { count: 1, turnId: "t1", kind: { case: "tool" as const, value: { callId: "c1", content: "r" } } },
    { count: 2, turnId: "t1", kind: { case: "assistant" as const, value: { text: "a" } } },
    { count: 3, turnId: "t2", kind: { case: "user" as const, value: { text: "open" } } },
  ].map((message) => create(v1.MessageSchema, message));
  const entries = entriesOf(messages, "t2");
  expect(entries.map((entry) => [entry.kind, entry.text])).toEqual([["user", "q"], ["agent", ""], ["agent", "a"]]);
  expect(entries[1]).toMatchObject({ calls: [{ content: "r", group: undefined }], endOf: "" });
  const group = create(v1.TaskGroupSchema, { callId: "c1" });
  expect(entriesOf(messages, "", groupsOf([{ taskGroups: [group] }]))[1]).toMatchObject({ calls: [{ group: { callId: "c1" } }] });
  expect(messagesOf([{ messages: messages.slice(2).reverse() }, { messages: messages.slice(0, 2).reverse() }])).toEqual(messages);
  expect(entries[2]).toMatchObject({ endOf: "t1" });
  expect(entriesOf(messages, "")).toHaveLength(4);
});

test("the last message of a turn without an answer is marked", () => {
  const messages = [
    { count: 1, turnId: "t1", kind: { case: "user" as const, value: { text: "q" } } },
    { count: 2, turnId: "t1", kind: { case: "assistant" as const, value: { text: "", calls: [{ id: "c1", name: "x", argumentsJson: "{}" }] } } },
    { count: 3, turnId: "t2", kind: { case: "user" as const, value: { text: "q" } } },
    { count: 4, turnId: "t3", kind: { case: "user" as const, value: { text: "q" } } },
    { count: 5, turnId: "t3", kind: { case: "assistant" as const, value: { text: "a" } } },
    { count: 6, turnId: "", kind: { case: "user" as const, value: { text: "copied" } } },
  ].map((message) => create(v1.MessageSchema, message));
  expect(entriesOf(messages, "").map(({ unanswered }) => unanswered)).toEqual(["", "t1", "t2", "", "", ""]);
});

test("conversations with different agents are in one order", () => {
  const threads = [["old", 1], ["new", 3], ["unknown", undefined], ["middle", 2]] as const;
  const messages = threads.map(([threadId, ms]) => create(v1.ThreadSchema, { threadId, ...(ms !== undefined && { createTime: timestampFromMs(ms) }) }));
  expect(newestFirst(messages).map(({ threadId }) => threadId)).toEqual(["new", "middle", "old", "unknown"]);
});

describe("tasks of delegated agents", () => {
  const group = { callId: "c1", groupId: "grp_1", tasks: [{ number: 1, agent: "document", tool: "", threadId: "thr_2" }, { number: 2, agent: "document", tool: "list_tags", threadId: "thr_3" }] };
  const run = { ...CALL, name: "run_tasks" };
  const started: MessageInitShape<typeof v1.EventSchema>["kind"] = { case: "tasksStarted", value: { group } };
  const ended = (index: number, status: v1.TaskStatus) => {
    const task = group.tasks[index];
    return event({ case: "taskEnded", value: { callId: "c1", groupId: "grp_1", status, ...(task && { task }) } });
  };

  test("belong to their call, and end one by one", () => {
    const calls = [event({ case: "roundStarted", value: { round: 1 } }), event({ case: "toolCalls", value: { calls: [run] } }), event(started)];
    const state = afterEvents(startedTurn("hi"), [...calls, ended(1, v1.TaskStatus.FAILED), ended(1, v1.TaskStatus.FAILED)]);
    expect(state.rounds[0]?.calls[0]?.group?.tasks.map(({ threadId }) => threadId)).toEqual(["thr_2", "thr_3"]);
    expect([...state.endedTasks]).toEqual([["thr_3", v1.TaskStatus.FAILED]]);
    const turn = { turnId: "trn_1", threadId: "thr_1", status: v1.TurnStatus.RUNNING, rounds: [{ round: 1, calls: [{ ...run, group }] }] };
    const later = afterEvents(state, [event({ case: "snapshot", value: { turn } }), ended(0, v1.TaskStatus.COMPLETED)]);
    expect([...later.endedTasks]).toEqual([["thr_3", v1.TaskStatus.FAILED], ["thr_2", v1.TaskStatus.COMPLETED]]);
    expect(later.rounds[0]?.calls[0]?.group?.groupId).toBe("grp_1");
    // An event without its parts changes nothing.
    expect(afterEvents(later, [event({ case: "tasksStarted", value: {} }), event({ case: "taskEnded", value: {} })]).endedTasks.size).toBe(2);
  });

  test("have their ends from events or from the result of the call, and any text is a result", () => {
    const message = create(v1.TaskGroupSchema, group);
    const content = JSON.stringify({ group_id: "grp_1", tasks: [{ task: 1, agent: "document", status: "completed", summary: "<b>5</b>", thread_id: "x" }, { task: 2, status: "unknown", summary: 7 }] });
    expect(tasksOf(message, new Map([["thr_3", v1.TaskStatus.EXPIRED]]), content)).toEqual([
      { number: 1, label: "Agent document", threadId: "thr_2", status: v1.TaskStatus.COMPLETED, summary: "<b>5</b>" },
      { number: 2, label: "Tool list_tags", threadId: "thr_3", status: v1.TaskStatus.EXPIRED, summary: "" },
    ]);
    for (const text of ["", "no json", "[]", "null", '{"tasks":5}', '{"tasks":[null,[],"x"]}']) {
      expect(tasksOf(message, new Map(), text).map(({ status }) => taskStatusOf(status)[0])).toEqual(["", ""]);
    }
  });
});

describe("a tool call", () => {
  test("has a readable summary", () => {
    expect(summaryOf("create_tag", '{"name": "paid\\n now", "n": 2, "deep": {}}')).toBe("Create tag: paid now, 2");
    expect(summaryOf("list_tags", "no json")).toBe("List tags");
    expect([...summaryOf("x", JSON.stringify({ a: "😀".repeat(100) }))].length).toBeLessThan(70);
  });

  test("states the users that may approve it, and the rule", () => {
    const requirement = create(v1.ApprovalRequirementSchema, { rule: "four eyes", roles: [v1.Role.ADMIN], notByRequester: true });
    expect(approversOf(requirement)).toBe("May be approved by admins, but not by the user that sent the message (rule “four eyes”).");
    expect(approversOf(create(v1.ApprovalRequirementSchema))).toContain("every user with write access");
  });

  test("is edited as a JSON object of a bounded size", () => {
    expect(editedArguments('{"name":"a","size":null}')).toEqual({ value: { name: "a", size: null } });
    for (const bad of ["", "[]", "null", "{", `{"name":"${"x".repeat(140_000)}"}`]) expect(editedArguments(bad)).toHaveProperty("problem");
  });
});

test("a mention has a known kind and an id", () => {
  expect(mentionOf("tag:tag_1")?.target).toEqual({ case: "tagId", value: "tag_1" });
  for (const bad of ["tag:", "user:usr_1", "tag"]) expect(mentionOf(bad)).toBeUndefined();
});

test("an @ begins a mention, but not within an address", () => {
  expect(["", "about ", "請求書", "(", "line\n"].map((text) => beginsMention(text, text.length))).toEqual(Array(5).fill(true));
  expect(["ann", "ann.b", "see a1"].map((text) => beginsMention(text, text.length))).toEqual([false, false, false]);
  // The text after the caret does not count.
  expect(beginsMention("ann", 0)).toBe(true);
});

test("chosen mentions stay options when the search finds others", () => {
  const found = [{ value: "prompt:prm_2.1", label: "Other" }];
  const options = withChosen("prompt", found, ["prompt:prm_1.1", "schema:sch_1.1", "prompt:prm_2.1", "prompt:prm_3.1"], new Map([["prompt:prm_1.1", "Invoices"]]));
  expect(options.map(({ label }) => label)).toEqual(["Other", "Invoices", "prompt:prm_3.1"]);
});

describe("Markdown", () => {
  test("is split at blank lines, but not in code and lists", () => {
    expect(blocksOf("a\n\nb\nc\n\n```\nx\n\ny\n```\n\n- one\n\n  more")).toEqual(["a", "b\nc", "```\nx\n\ny\n```", "- one\n\n  more"]);
    expect(blocksOf("")).toEqual([]);
    expect(blocksOf("```\nopen\n\nstill")).toEqual(["```\nopen\n\nstill"]);
  });

  const ATTACKS = [
    `<img src=x onerror="window.hacked=1">`,
    `<script>window.hacked=1</script>`,
    `<iframe src="javascript:alert(1)"></iframe>`,
    `[click](javascript:alert(1))`,
    `[click](data:text/html;base64,PHNjcmlwdD4=)`,
    `![x](https://evil.example/pixel.png)`,
    `<style>body{display:none}</style>`,
    `<a href="https://ok.example" onclick="alert(1)">x</a>`,
    `<svg/onload=alert(1)>`,
    "[x]: javascript:alert(1)\n\n[x]",
  ];
  test.each(ATTACKS)("renders %s without effect", (text) => {
    const { container } = render(<MantineProvider env="test"><Markdown text={text} /></MantineProvider>);
    expect(container.querySelector("img, script, iframe, svg, object, embed, form, input")).toBeNull();
    for (const element of container.querySelectorAll("*")) {
      for (const { name, value } of element.attributes) {
        expect(name.startsWith("on")).toBe(false);
        expect(value).not.toMatch(/^(javascript|data):/i);
      }
    }
    expect("hacked" in window).toBe(false);
  });

  test("keeps links, which leave without a referrer", () => {
    const { container } = render(<MantineProvider env="test"><Markdown text="[a](https://ok.example/)" /></MantineProvider>);
    const link = container.querySelector("a");
    expect([link?.href, link?.rel, link?.target]).toEqual(["https://ok.example/", "noopener noreferrer nofollow", "_blank"]);
  });

  test("of a growing answer is rendered once, except for its last block", () => {
    const text = "Some **bold** text.\n\n- one\n- two\n\n```\ncode\n\nmore\n```\n\nThe end.\n\n".repeat(20);
    let before: string[] = [];
    for (let length = 1; length <= text.length; length += 7) {
      const blocks = blocksOf(text.slice(0, length));
      expect(blocks.slice(0, before.length - 1)).toEqual(before.slice(0, -1));
      before = blocks;
    }
    expect(before.length).toBeGreaterThan(60);
  });
});

test("the effect of a call is a sentence with its counts", () => {
  const of = (effect: v1.CallEffect, targetKind = "", targetName = "") => effectSentence({ effect, targetKind, targetName });
  expect(of(v1.CallEffect.UPDATES, "schema", "Invoice")).toBe("Updates the schema “Invoice”.");
  expect(of(v1.CallEffect.CREATES, "tag")).toBe("Creates the tag.");
  expect(of(v1.CallEffect.DELETES, "document", "a.pdf")).toBe("Deletes the document “a.pdf”.");
  expect(of(v1.CallEffect.NOTHING)).toBe("Changes nothing.");
  expect([v1.CallEffect.UNKNOWN, v1.CallEffect.UNSPECIFIED, 99 as v1.CallEffect].map((effect) => of(effect))).toEqual(Array(3).fill("The effect is known only when the call runs."));
  const affected = (count: bigint, hasMore = false) => affectedSentence(create(v1.AffectedResourcesSchema, { count, hasMore }), "prompt");
  expect([affected(0n), affected(1n), affected(3n), affected(50n, true), affectedSentence(undefined, "prompt")]).toEqual(["", "Affects 1 prompt.", "Affects 3 prompts.", "Affects more than 50 prompts.", ""]);
});

test("a compared value has the lines of its text or of the JSON in it", () => {
  expect(linesOfValue('"a\\nb"')).toBe("a\nb");
  expect(linesOfValue('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(linesOfValue('"{\\"a\\":1}"')).toBe('{\n  "a": 1\n}');
  expect([linesOfValue(""), linesOfValue("no JSON"), linesOfValue("5")]).toEqual(["", "no JSON", "5"]);
});

test("the usage of a turn has its credits only if the server charges them", () => {
  const usage = (credits: bigint) => usageSentence(create(v1.UsageSchema, { inputTokens: 12n, outputTokens: 3n, modelCalls: 1, credits }));
  expect([usage(0n), usage(1n), usage(7n)]).toEqual(["", ", 1 credit", ", 7 credits"].map((credits) => `12 tokens read, 3 written, 1 model call${credits}`));
});

test("edited arguments are approved only after their check, and not if the server refuses them", () => {
  const original = '{"name":"a"}';
  const text = '{"name":"b"}';
  const check = { text, hasProblem: false, isRefused: false };
  expect(editVerdict(original, original, check)).toEqual({ canApprove: true, error: false, note: "" });
  expect(editVerdict(text, original, check)).toEqual({ canApprove: true, error: false, note: "" });
  expect(editVerdict(text, original, undefined).canApprove).toBe(true);
  expect(editVerdict(text, original, { ...check, text: "" })).toMatchObject({ canApprove: false, error: false });
  expect(editVerdict(text, original, { ...check, hasProblem: true, isRefused: true })).toMatchObject({ canApprove: false, error: true });
  // A call that refers to an earlier call of its round fails in a preview.
  expect(editVerdict(text, original, { ...check, hasProblem: true })).toEqual({ canApprove: true, error: true, note: "" });
  expect(editVerdict("[", original, undefined)).toMatchObject({ canApprove: false, error: "The arguments must be a JSON object." });
});

test("the lines of a problem have the positions that they state", () => {
  const problem = "The arguments do not match the schema of create_tag:\n#/name: is missing\n#: has an unknown member: x\n#/a~1b/0: must be a number";
  expect(problemsOf(problem)).toEqual([{ path: "#/name", message: "is missing" }, { path: "#", message: "has an unknown member: x" }, { path: "#/a~1b/0", message: "must be a number" }]);
  expect(problemsOf("the name is taken")).toEqual([]);
});
