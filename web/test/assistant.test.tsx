import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test } from "vitest";
import { readAnswer, sourceLink } from "../src/agent/answers.js";
import { columnsOf } from "../src/agent/proposed_columns.js";
import { intentOf, stepLabel, stepsOf, withEnd, withStart } from "../src/agent/steps.js";
import { afterEvents, startedTurn } from "../src/agent/turn_state.js";
import { assistantSubject, scopeOf, scopeOfMemory, setScope } from "../src/assistant/scope.js";
import { linkedHighlight } from "../src/document/box_link.js";
import { quotedWords } from "../src/document/search.js";
import { choose, renderPage, type Services } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1">`;
type Kind = NonNullable<MessageInitShape<typeof v1.EventSchema>["kind"]>;

const PASSAGE = { document_id: "doc_1", document_name: "costs.pdf", page: 3, section_id: "s1", section: "Costs", quote: "total operating expense of product line A is $1,238,450" };
const ANSWERS = {
  AnswerResponse: { question: "What is the total?", answer: `$1,238,450 ${HOSTILE}`, sources: ["doc_1"], confidence: 0.9, timestamp: "2026-03-17T10:00:00Z", passages: [PASSAGE] },
  SummarizationResponse: { summary: "Costs fell.", key_points: ["one", HOSTILE, "three"], sources: ["doc_1", "doc_2"], confidence: 0.5, timestamp: "", passages: [PASSAGE] },
  CalculationResponse: { formula: "price - (fee + rate * price)", expression: "4200 - (1200 + 0.12*4200)", result: 2496, sources: [], confidence: 1, timestamp: "x", passages: [] },
} as const;
type AnswerType = keyof typeof ANSWERS;

function node(name: string, kind: v1.NodeKind, answerType: string, answer: unknown, isDefault = false) {
  return { name, kind, answerType, end: { answerJson: JSON.stringify(answer), isDefault, nextNode: "" } };
}

/** The events of a turn whose agent gives a typed answer. */
function turnEvents(type: AnswerType, agent: string): Kind[] {
  const classify = node("classify_intent", v1.NodeKind.ROUTE, "UserIntent", { intent_type: "qa", confidence: 0.95, reasoning: HOSTILE });
  const answer = node(agent, v1.NodeKind.ANSWER, type, ANSWERS[type]);
  const memory = node("update_memory", v1.NodeKind.MEMORY, "ConversationSummary", { summary: "s" });
  const rounds = [{ round: 1, node: classify, text: "{}" }, { round: 2, node: answer, text: "{}" }, { round: 3, node: memory, text: "{}" }];
  return [
    { case: "turnStarted", value: { threadId: "thr_1", model: "m1" } },
    { case: "nodeStarted", value: { round: 1, name: "classify_intent" } },
    { case: "roundStarted", value: { round: 1, attempt: 1 } },
    { case: "nodeEnded", value: { round: 1, node: classify } },
    { case: "nodeStarted", value: { round: 2, name: agent } },
    { case: "roundStarted", value: { round: 2, attempt: 1 } },
    { case: "nodeEnded", value: { round: 2, node: answer } },
    { case: "nodeStarted", value: { round: 3, name: "update_memory" } },
    { case: "roundStarted", value: { round: 3, attempt: 1 } },
    { case: "nodeEnded", value: { round: 3, node: memory } },
    { case: "completed", value: { text: "the text of the answer", rounds, answerType: type, answerJson: JSON.stringify(ANSWERS[type]) } },
  ];
}

const eventsOf = (kinds: readonly Kind[]) => kinds.map((kind, index) => create(v1.EventSchema, { turnId: "trn_1", number: BigInt(index + 1), kind }));

describe("the steps of a turn", () => {
  test("follow the nodes, and a later attempt of a round voids its steps", () => {
    let steps = withStart([], { round: 1, name: "classify_intent" });
    steps = withEnd(steps, 1, create(v1.RoundNodeSchema, node("classify_intent", v1.NodeKind.ROUTE, "UserIntent", { intent_type: "qa" }, true)));
    steps = withStart(steps, { round: 2, name: "qa_agent" });
    // The node continues in another round, and the round is attempted again.
    steps = withStart(withStart(steps, { round: 3, name: "qa_agent" }), { round: 3, name: "qa_agent" });
    expect(steps.map(({ round, name, end }) => [round, name, end?.isDefault])).toEqual([[1, "classify_intent", true], [2, "qa_agent", undefined]]);
    expect(withStart(steps, { round: 2, name: "qa_agent" })).toHaveLength(2);
  });

  test("are those of the rounds after a reload", () => {
    const rounds = [
      { round: 1, node: node("classify_intent", v1.NodeKind.ROUTE, "UserIntent", {}) },
      { round: 2, node: { name: "qa_agent", kind: v1.NodeKind.ANSWER, answerType: "AnswerResponse" } },
      { round: 3, node: node("qa_agent", v1.NodeKind.ANSWER, "AnswerResponse", {}) },
    ].map((round) => create(v1.RoundSchema, round));
    expect(stepsOf(rounds).map(({ round, name, end }) => [round, name, end !== undefined])).toEqual([[1, "classify_intent", true], [2, "qa_agent", true]]);
    expect(stepsOf([create(v1.RoundSchema, { round: 1 })])).toEqual([]);
  });

  test("have the chosen intent, and any other answer has none", () => {
    expect(intentOf({ answerJson: '{"intent_type":"qa","confidence":0.5,"reasoning":"r"}', isDefault: false })).toEqual({ text: "qa, 50%", reasoning: "r" });
    for (const answerJson of ["", "[]", "null", '{"intent_type":7}']) expect(intentOf({ answerJson, isDefault: false }).text).toBe("");
    expect(stepLabel("classify_intent")).toBe("Classify intent");
  });

  test("and the typed answer are a part of the state of the turn", () => {
    const state = afterEvents(startedTurn("hi"), eventsOf(turnEvents("AnswerResponse", "qa_agent")));
    expect(state.steps.map(({ name, end }) => [name, end !== undefined])).toEqual([["classify_intent", true], ["qa_agent", true], ["update_memory", true]]);
    expect(state.answer?.type).toBe("AnswerResponse");
    // The answer is known before the memory is updated.
    expect(afterEvents(startedTurn("hi"), eventsOf(turnEvents("AnswerResponse", "qa_agent").slice(0, 7))).answer?.type).toBe("AnswerResponse");
  });
});

describe("a typed answer", () => {
  const read = (type: string, value: unknown) => readAnswer({ type, json: JSON.stringify(value) });

  test("is read with its sources, and members of another type are left out", () => {
    expect(read("AnswerResponse", ANSWERS.AnswerResponse)).toMatchObject({ kind: "answer", confidence: 0.9, sources: [{ documentId: "doc_1", documentName: "costs.pdf", passages: [{ page: 3 }] }] });
    expect(read("SummarizationResponse", ANSWERS.SummarizationResponse)).toMatchObject({ keyPoints: ["one", HOSTILE, "three"], time: undefined, sources: [{ passages: [{}] }, { documentId: "doc_2", passages: [] }] });
    expect(read("CalculationResponse", ANSWERS.CalculationResponse)).toMatchObject({ expression: "4200 - (1200 + 0.12*4200)", result: "2496", time: undefined });
    expect(read("AnswerResponse", { answer: 7, sources: "x", passages: [null, { document_id: 3 }, { document_id: "doc_1", page: -1 }], confidence: 9 })).toMatchObject({ text: "7", confidence: undefined, sources: [{ documentId: "3" }, { documentId: "doc_1", passages: [{ page: undefined }] }] });
    expect([read("AnswerResponse", []), read("Other", {}), readAnswer({ type: "AnswerResponse", json: "{" })]).toEqual([undefined, undefined, undefined]);
  });

  test("leads to the words of its passage", () => {
    const link = new URL(sourceLink({ documentId: "doc/1", documentName: "", page: 3, section: "", quote: "a & b" }), "http://a");
    expect(link.pathname).toBe("/documents/doc%2F1");
    expect(linkedHighlight(link.searchParams)).toEqual({ page: 3, boxes: [], quote: "a & b" });
    expect(linkedHighlight(new URLSearchParams({ page: "1", quote: "é".repeat(999) }))?.quote).toHaveLength(401);
    expect([linkedHighlight(new URLSearchParams("page=1&quote=%20")), linkedHighlight(new URLSearchParams("page=x&quote=a"))]).toEqual([undefined, undefined]);
  });

  test("has quotes whose ends may be cut or on another page", () => {
    const words = "the total operating expense of product line A is high".split(" ").map((text) => ({ text }));
    expect([...quotedWords(words, "total operating")]).toEqual([1, 2]);
    expect([...quotedWords(words, "…tal operating expense o…")]).toEqual([2, 3]);
    // The end of the quote is on the next page, or its beginning on the page before.
    expect([...quotedWords(words, "line A is high and the rest follows")]).toEqual([6, 7, 8, 9]);
    expect([...quotedWords(words, "before on another page the total operating expense of")]).toEqual([0, 1, 2, 3, 4]);
    // Few words of a long quote are no evidence.
    expect(quotedWords(words, `${"other ".repeat(20)}line A is`).size).toBe(0);
    expect([quotedWords(words, "nothing of this occurs here at all").size, quotedWords(words, "…").size, quotedWords([], "total").size]).toEqual([0, 0, 0]);
  });
});

test("the words of a quote are highlighted on their page and the next one, else its boxes", async () => {
  const words = ["the", "total", "operating", "expense", "of", "line"].map((text, index) => ({ text, boundingBox: { left: index / 10, top: 0.1, right: index / 10 + 0.05, bottom: 0.2 } }));
  const services: Services = {
    document: {
      getDocument: () => ({ document: { documentId: "doc_1", name: "a.pdf", mediaType: "application/pdf", state: v1.DocumentState.READY, textGeneration: "g", pages: 3 } }),
      getPageWords: ({ page }) => ({ width: 100, height: 100, words: page === 2 ? words : [] }),
      getPageImage: async function* () { yield { chunk: new Uint8Array([1]) }; },
      watchDocument: async function* () { yield { change: { case: "caughtUp" as const, value: {} } }; await new Promise(() => undefined); },
    },
    extraction: { listExtractions: () => ({}) },
  };
  const lefts = () => [...document.querySelectorAll('[data-testid="highlight"] rect')].map((rect) => Number(rect.getAttribute("x")).toFixed(1));
  const first = renderPage(services, "/documents/doc_1?page=2&quote=total+operating&box=0.9,0.1,0.95,0.2");
  await waitFor(() => expect(lefts()).toEqual(["0.1", "0.2"]));
  first.unmount();
  const second = renderPage(services, "/documents/doc_1?page=1&quote=cut+before+the+page+expense+of+line");
  await waitFor(() => expect(lefts()).toEqual(["0.3", "0.4", "0.5"]));
  second.unmount();
  renderPage(services, "/documents/doc_1?page=2&quote=missing&box=0.9,0.1,0.95,0.2");
  await waitFor(() => expect(lefts()).toEqual(["0.9"]));
});

test("the columns that a model proposes are read, and arguments of another form have none", () => {
  const columns = [{ name: "Total", type: "number", unit: "EUR", required: true, description: "d" }, { name: "Kind", type: "enum", enum: ["a", "b"] }, 7];
  const expected = [{ name: "Total", type: "number in EUR, required", description: "d" }, { name: "Kind", type: "enum, one of a, b", description: "" }, { name: "", type: "", description: "" }];
  expect(columnsOf(JSON.stringify({ columns }))).toEqual(expected);
  expect(columnsOf(JSON.stringify({ columns: JSON.stringify(columns) }))).toEqual(expected);
  expect([columnsOf("{"), columnsOf("[]"), columnsOf('{"columns":{}}')]).toEqual([[], [], []]);
});

test("the scope of a conversation is checked", () => {
  const address = (text: string) => scopeOf(new URLSearchParams(text));
  expect(address("about=documents&document=doc_1&document=doc_1&document=a%2Fb&tag=tag_1")).toEqual({ kind: "documents", documentIds: ["doc_1"], tagId: "", collectionId: "" });
  expect(address("about=bad&document=doc_1")).toEqual({ kind: "all", documentIds: [], tagId: "", collectionId: "" });
  const many = address(`about=documents&${Array.from({ length: 150 }, (_, index) => `document=doc_${index}`).join("&")}`);
  expect(many.documentIds).toHaveLength(100);
  const kept = setScope(new URLSearchParams("thread=thr_1&about=tag&tag=x"), address("about=collection&collection=col_1"));
  expect(kept.toString()).toBe("thread=thr_1&about=collection&collection=col_1");

  const subject = (text: string) => assistantSubject(address(text));
  expect(subject("")).toMatchObject({ documentIds: [], mentions: [] });
  expect(subject("").refusal).toBeUndefined();
  expect(subject("about=tag&tag=tag_1")).toMatchObject({ documentIds: [], mentions: ["tag:tag_1"] });
  expect(subject("about=collection&collection=col_1")).toMatchObject({ documentIds: [], mentions: ["collection:col_1"] });
  expect(subject("about=documents&document=doc_1")).toMatchObject({ documentIds: ["doc_1"], mentions: [] });
  for (const text of ["about=documents", "about=tag", "about=collection"]) expect(subject(text).refusal).toBeTruthy();
});

test("the scope of a conversation is that of its newest message", () => {
  const all = { kind: "all", documentIds: [], tagId: "", collectionId: "" };
  const memory = (tags: unknown, collections: unknown) => scopeOfMemory(JSON.stringify({ mentioned_tags: tags, mentioned_collections: collections }));
  expect(memory(["tag_1"], [])).toEqual({ ...all, kind: "tag", tagId: "tag_1" });
  expect(memory([], ["col_1"])).toEqual({ ...all, kind: "collection", collectionId: "col_1" });
  for (const [tags, collections] of [[[], []], [["tag_1", "tag_2"], []], [["tag_1"], ["col_1"]], [[7], "x"], [["<b>"], null]]) expect(memory(tags, collections)).toEqual(all);
  expect([scopeOfMemory(""), scopeOfMemory("[1]"), scopeOfMemory("{")]).toEqual([all, all, all]);
});

function services(chats: v1.ChatRequest[], type: AnswerType, agent: string): Services {
  return {
    thread: { listThreads: () => ({}), getThread: () => ({ thread: { threadId: "thr_1" } }) },
    model: { listModels: () => ({ models: [{ name: "m1" }] }) },
    tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid" }] }) },
    document: {
      getDocument: ({ documentId }) => ({ document: { documentId, name: `name of ${documentId}` } }),
      listDocuments: () => ({ documents: [{ documentId: "doc_7", name: "seven.pdf" }] }),
    },
    collection: {
      listCollections: () => ({ collections: [{ collectionId: "col_1", name: "Contracts" }] }),
      getCollection: () => ({ collection: { collectionId: "col_1", name: "Contracts" } }),
    },
    conversation: {
      listTools: ({ profile }) => ({ tools: [{ name: `tool of ${profile}`, access: v1.ToolAccess.READ_ONLY }] }),
      chat: async function* (request) {
        chats.push(request);
        for (const event of eventsOf(turnEvents(type, agent))) yield { event };
      },
    },
  };
}

test.each([
  ["AnswerResponse", "qa_agent", "Answer", `$1,238,450 ${HOSTILE}`],
  ["SummarizationResponse", "summarization_agent", "Summary", "Costs fell."],
  ["CalculationResponse", "calculation_agent", "Calculation", "2496"],
] as const)("%s is a card with its steps and sources", async (type, agent, title, text) => {
  const chats: v1.ChatRequest[] = [];
  const { user } = renderPage(services(chats, type, agent), "/assistant");
  expect(await screen.findByText("Ask about your documents")).toBeTruthy();
  // The assistant changes nothing, so that no approval is chosen.
  expect([screen.queryByRole("combobox", { name: "Approval" }), screen.queryByRole("switch", { name: "Divide into tasks" })]).toEqual([null, null]);
  await user.type(screen.getByLabelText("Message to the agent"), "What is the total?{Enter}");
  const card = within(await screen.findByRole("region", { name: title }));
  expect(card.getByText(text)).toBeTruthy();
  const steps = within(await screen.findByRole("list", { name: "Steps" }));
  expect(steps.getAllByRole("listitem").map(({ textContent }) => textContent)).toEqual(["Classify intent: qa, 95%, done", expect.stringMatching(/agent, done$/), "Update memory, done"]);
  if (type === "CalculationResponse") expect(card.getByText("The answer names no source.")).toBeTruthy();
  else expect(card.getByRole("link", { name: /^costs\.pdf ?, p\. 3$/ }).getAttribute("href")).toContain("/documents/doc_1?page=3&quote=total+operating");
  if (type === "SummarizationResponse") {
    expect(within(card.getByRole("list", { name: "Key points" })).getAllByRole("listitem")).toHaveLength(3);
    // A source without a passage is a link to its document.
    expect((await card.findByRole("link", { name: "name of doc_2" })).getAttribute("href")).toBe("/documents/doc_2");
  }
  // The JSON and the text of the nodes are not repeated.
  expect([screen.queryByText("{}"), screen.queryByText("the text of the answer")]).toEqual([null, null]);
  expect(document.querySelector("img[src=x]")).toBeNull();
  expect(chats[0]).toMatchObject({ profile: "assistant", documentIds: [], threadId: "" });
  expect(window.location.search).toContain("thread=thr_1");
});

test("each message of a conversation mentions its collection or its tag", async () => {
  const chats: v1.ChatRequest[] = [];
  const { user } = renderPage(services(chats, "AnswerResponse", "qa_agent"), "/assistant?about=collection&collection=col_1");
  await user.type(await screen.findByLabelText("Message to the agent"), "hello{Enter}");
  await waitFor(() => expect(chats[0]).toMatchObject({ profile: "assistant", documentIds: [], mentions: [{ target: { case: "collectionId", value: "col_1" } }] }));
  await screen.findByRole("region", { name: "Answer" });

  await user.click(screen.getByRole("button", { name: "New" }));
  await choose(user, await screen.findByRole("combobox", { name: "About" }), "A tag");
  expect(await screen.findByText("Choose the tag of the conversation.")).toBeTruthy();
  expect(screen.queryByLabelText("Message to the agent")).toBeNull();
  await choose(user, await screen.findByRole("combobox", { name: "Tag" }), "paid");
  await user.type(await screen.findByLabelText("Message to the agent"), "again{Enter}");
  await waitFor(() => expect(chats[1]?.mentions.map(({ target }) => target)).toEqual([{ case: "tagId", value: "tag_1" }]));
  expect(chats[1]?.documentIds).toEqual([]);
});

test("a conversation keeps the collection of its newest message until another choice", async () => {
  const chats: v1.ChatRequest[] = [];
  const base = services(chats, "AnswerResponse", "qa_agent");
  const profileStateJson = JSON.stringify({ mentioned_tags: [], mentioned_collections: ["col_1"] });
  const threads = [{ threadId: "thr_1", title: "Costs", workingState: { profileStateJson } }, { threadId: "thr_2", title: "Rents", workingState: { profileStateJson: "" } }];
  const thread = { listThreads: () => ({ threads }), getThread: () => ({ thread: { threadId: "thr_1" } }) };
  const { user } = renderPage({ ...base, thread }, "/assistant?thread=thr_1");
  expect(await screen.findByRole("combobox", { name: "Collection" })).toBeTruthy();
  await user.type(await screen.findByLabelText("Message to the agent"), "hello{Enter}");
  await waitFor(() => expect(chats[0]?.mentions.map(({ target }) => target)).toEqual([{ case: "collectionId", value: "col_1" }]));
  await screen.findByRole("region", { name: "Answer" });

  await choose(user, screen.getByRole("combobox", { name: "About" }), "All documents");
  expect(window.location.search).toBe("?thread=thr_1&about=all");
  await user.type(screen.getByLabelText("Message to the agent"), "again{Enter}");
  await waitFor(() => expect(chats[1]?.mentions).toEqual([]));

  // Another conversation has a scope of its own.
  await choose(user, screen.getByRole("combobox", { name: "Conversation" }), "Rents");
  await waitFor(() => expect(window.location.search).toBe("?thread=thr_2"));
});

test("the tool log of a conversation has the input and the output of each call", async () => {
  const uses = [
    { callId: "trn_1.1.1", turnId: "trn_1", tool: "calculator", inputJson: '{"expression":"1 + 1"}', output: '"Result: 2"', status: v1.CallStatus.OK, node: "calculation_agent" },
    { callId: "trn_1.2.1", turnId: "trn_1", tool: HOSTILE, inputJson: "{}", output: "", status: v1.CallStatus.UNSPECIFIED, node: "" },
  ];
  const requests: string[] = [];
  const { user } = renderPage({
    ...services([], "AnswerResponse", "qa_agent"),
    thread: {
      listThreads: () => ({ threads: [{ threadId: "thr_1", title: "Costs" }] }),
      getThread: () => ({ thread: { threadId: "thr_1" } }),
      listToolUses: ({ threadId, pageToken }) => {
        requests.push(`${threadId}:${pageToken}`);
        return { toolUses: pageToken === "" ? uses.slice(0, 1) : uses.slice(1), nextPageToken: pageToken === "" ? "2" : "" };
      },
    },
  }, "/assistant?thread=thr_1");
  const button = await screen.findByRole("button", { name: "Tool log" });
  expect(requests).toEqual([]);
  await user.click(button);
  const log = within(await screen.findByRole("region", { name: "Tool log" }));
  expect(log.getByText("calculator · calculation_agent")).toBeTruthy();
  expect(log.getByText(/Result: 2/)).toBeTruthy();
  await user.click(log.getByRole("button", { name: "Load more" }));
  expect(await log.findByText(HOSTILE)).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
  expect(requests).toEqual(["thr_1:", "thr_1:2"]);
});

test("documents of a conversation are found by name", async () => {
  const chats: v1.ChatRequest[] = [];
  const { user } = renderPage(services(chats, "AnswerResponse", "qa_agent"), "/assistant?about=documents");
  await choose(user, await screen.findByRole("combobox", { name: "Documents" }), "seven.pdf");
  expect(window.location.search).toBe("?about=documents&document=doc_7");
  await user.type(await screen.findByLabelText("Message to the agent"), "hello{Enter}");
  await waitFor(() => expect(chats[0]?.documentIds).toEqual(["doc_7"]));
});

test("an earlier answer is a card after a reload, and its text if the server no longer has it", async () => {
  const turns: string[] = [];
  const base = services([], "AnswerResponse", "qa_agent");
  renderPage({
    ...base,
    thread: {
      listThreads: () => ({ threads: [{ threadId: "thr_1", title: "Costs", documentIds: ["doc_1"] }] }),
      getThread: () => ({
        thread: { threadId: "thr_1" },
        messages: [
          { count: 4, turnId: "trn_2", kind: { case: "assistant", value: { text: "only the text" } } },
          { count: 3, turnId: "trn_2", kind: { case: "user", value: { text: "and now?" } } },
          { count: 2, turnId: "trn_1", kind: { case: "assistant", value: { text: "$1,238,450" } } },
          { count: 1, turnId: "trn_1", kind: { case: "user", value: { text: "What is the total?" } } },
        ],
      }),
    },
    conversation: {
      ...base.conversation,
      getTurn: ({ turnId }) => {
        turns.push(turnId);
        return turnId === "trn_1" ? { turn: { turnId, answerType: "AnswerResponse", answerJson: JSON.stringify(ANSWERS.AnswerResponse) } } : { turn: { turnId } };
      },
    },
  }, "/assistant?thread=thr_1");
  const card = within(await screen.findByRole("region", { name: "Answer" }));
  expect(card.getByRole("link", { name: /^costs\.pdf ?, p\. 3$/ })).toBeTruthy();
  expect(screen.getByText("only the text")).toBeTruthy();
  expect((await screen.findByRole("link", { name: "name of doc_1" })).getAttribute("href")).toBe("/documents/doc_1");
  expect([...turns].sort()).toEqual(["trn_1", "trn_2"]);
});

test("the end of a turn without an answer is shown after a reload", async () => {
  const base = services([], "AnswerResponse", "qa_agent");
  const turns: Record<string, MessageInitShape<typeof v1.TurnSchema>> = {
    trn_1: { turnId: "trn_1", status: v1.TurnStatus.FAILED, error: { code: "FAILED_PRECONDITION", reason: "ANSWER_INVALID", message: HOSTILE } },
    trn_2: { turnId: "trn_2", status: v1.TurnStatus.CANCELLED },
  };
  renderPage({
    ...base,
    thread: {
      listThreads: () => ({ threads: [{ threadId: "thr_1", title: "Costs" }] }),
      getThread: () => ({
        thread: { threadId: "thr_1" },
        messages: [
          { count: 2, turnId: "trn_2", kind: { case: "user", value: { text: "and now?" } } },
          { count: 1, turnId: "trn_1", kind: { case: "user", value: { text: "What is the total?" } } },
        ],
      }),
    },
    conversation: { ...base.conversation, getTurn: ({ turnId }) => ({ turn: turns[turnId] ?? { turnId } }) },
  }, "/assistant?thread=thr_1");
  expect(await screen.findByText("The model gave no usable answer")).toBeTruthy();
  expect(await screen.findByText("The answer was stopped.")).toBeTruthy();
});
