import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { requestOf } from "../src/inbox/approval_item.js";
import { withItem } from "../src/inbox/queries.js";
import { refusal, renderPage, SESSION, type Services } from "./page.js";

const HOSTILE = "<img src=x onerror=alert(1)>";
const call = (callId: string) => ({ callId, name: "create_tag", argumentsJson: `{"name":"${callId}"}`, argumentsDigest: `d-${callId}`, needsApproval: true });
const APPROVAL = create(v1.PendingApprovalSchema, { turnId: "trn_1", threadId: "thr_1", documentIds: ["doc_1"], calls: [call("c1"), call("c2"), { ...call("c3"), needsApproval: false }] });
const item = (itemId: string, ms: number, subject: v1.InboxItem["subject"], kind: v1.InboxItemKind) =>
  create(v1.InboxItemSchema, { itemId, kind, subject, createTime: timestampFromMs(ms) });
const ITEMS = [
  item("trn_1", 1, { case: "approval", value: APPROVAL }, v1.InboxItemKind.APPROVAL),
  item("ext_1", 2, { case: "fieldReview", value: create(v1.PendingReviewSchema, { extractionId: "ext_1", documentId: "doc_1", values: 9, approvedValues: 4, rejectedValues: 1 }) }, v1.InboxItemKind.FIELD_REVIEW),
  item("prp_1", 3, { case: "proposal", value: create(v1.ProposalSchema, { proposalId: "prp_1", documentId: "doc_1", documentType: "invoice", etag: "e1" }) }, v1.InboxItemKind.PROPOSAL),
];

function services(changes: Services = {}): Services {
  return {
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE } }) },
    inbox: {
      listInboxItems: () => ({ items: ITEMS }),
      watchInbox: async function* () {
        yield { change: { case: "caughtUp" as const, value: {} } };
        await new Promise(() => undefined);
      },
    },
    conversation: { listTools: () => ({}), getTurn: () => ({ turn: { turnId: "trn_1", userText: HOSTILE, approvableCallIds: ["c1", "c2"] } }) },
    ...changes,
  };
}

test("items stay in the order of their times, also changed ones", () => {
  const [first, second, third] = ITEMS;
  if (first === undefined || second === undefined || third === undefined) throw new Error("missing");
  expect(withItem([third, first], second).map(({ itemId }) => itemId)).toEqual(["trn_1", "ext_1", "prp_1"]);
  expect(withItem(ITEMS, second)).toHaveLength(3);
});

test("a request decides only about calls that wait", () => {
  const request = requestOf(APPROVAL, ["c1"], new Map([["c1", "approve"], ["c3", "approve"], ["other", "approve"]]));
  expect(request?.decisions.map(({ callId, argumentsDigest }) => [callId, argumentsDigest])).toEqual([["c1", "d-c1"]]);
  expect(requestOf(APPROVAL, [], new Map())).toBeUndefined();
});

test("all calls of an item are approved, and the number of items is in the navigation", async () => {
  const requests: v1.ApproveRequest[] = [];
  const base = services();
  const { user } = renderPage(services({
    conversation: { ...base.conversation, approve: (request) => { requests.push(request); return { outcome: { case: "completed", value: {} } }; } },
  }), "/inbox");
  expect(await screen.findByLabelText("3 waiting")).toBeTruthy();
  expect((await screen.findAllByText(HOSTILE)).length).toBeGreaterThan(0);
  expect(document.querySelector("img")).toBeNull();
  await user.click(await screen.findByRole("button", { name: "Approve all 2 calls" }));
  await waitFor(() => expect(requests.map(({ decisions }) => decisions.map(({ callId }) => callId))).toEqual([["c1", "c2"]]));
  expect(requests[0]?.continueAutoApproved).toBe(true);
});

test("an inbox says that approvals may be missing, also if it is empty", async () => {
  const base = services();
  renderPage(services({ inbox: { ...base.inbox, listInboxItems: () => ({ items: [], incomplete: true }) } }), "/inbox");
  expect(await screen.findByText("Approvals may be missing")).toBeTruthy();
  expect(screen.getByText("Nothing waits for you")).toBeTruthy();
});

test("another user's decision is a conflict with its own text", async () => {
  const base = services();
  const { user } = renderPage(services({
    conversation: { ...base.conversation, approve: () => { throw refusal(Code.Aborted, "DECISION_CONFLICT"); } },
  }), "/inbox");
  const first = (await screen.findAllByRole<HTMLButtonElement>("button", { name: "Approve create_tag" }))[0];
  await waitFor(() => expect(first?.disabled).toBe(false));
  if (first !== undefined) await user.click(first);
  expect(await screen.findByText("Already decided")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Show the decision" })).toBeTruthy();
});

test("a proposal is accepted with its tag, or without", async () => {
  const requests: v1.AcceptProposalRequest[] = [];
  const { user } = renderPage(services({ proposal: { acceptProposal: (request) => { requests.push(request); return {}; } } }), "/inbox");
  await user.click(await screen.findByRole("checkbox", { name: /Run the prompt/ }));
  await user.click(screen.getByRole("button", { name: "Accept" }));
  await waitFor(() => expect(requests.map(({ tagName, etag }) => [tagName, etag])).toEqual([["", "e1"]]));
});

test("a proposal that reuses the prompt of a similar document says so", async () => {
  const value = create(v1.ProposalSchema, { proposalId: "prp_2", documentId: "doc_1", promptRevid: "prm_1.1", similarProposalId: "prp_1", similarity: 0.97 });
  const items = [item("prp_2", 1, { case: "proposal", value }, v1.InboxItemKind.PROPOSAL)];
  const base = services();
  renderPage(services({ inbox: { ...base.inbox, listInboxItems: () => ({ items }) } }), "/inbox");
  expect(await screen.findByText(/an extraction was made as for a similar document \(97\s?% alike\), with/)).toBeTruthy();
  expect(screen.queryByText(/an agent created/)).toBeNull();
});

test("the keyboard moves through the items and opens one", async () => {
  const { user } = renderPage(services(), "/inbox");
  const cards = await screen.findAllByRole("listitem");
  expect(within(cards[1] as HTMLElement).getByText("4 of 9 values approved, 1 rejected")).toBeTruthy();
  expect(screen.queryByText("Approvals may be missing")).toBeNull();
  cards[0]?.focus();
  await user.keyboard("jj");
  expect(document.activeElement).toBe(cards[2]);
  await user.keyboard("k{Enter}");
  await waitFor(() => expect(window.location.pathname).toBe("/documents/doc_1"));
  // The document may have a newer extraction than the one to review.
  expect(new URLSearchParams(window.location.search).get("extraction")).toBe("ext_1");
});

test("the keyboard rejects a call with a reason, and accepts a proposal", async () => {
  const accepted: string[] = [];
  const { user } = renderPage(services({ proposal: { acceptProposal: ({ proposalId }) => { accepted.push(proposalId); return {}; } } }), "/inbox");
  const cards = await screen.findAllByRole("listitem");
  await within(cards[0] as HTMLElement).findAllByRole("button", { name: "Reject create_tag" });
  cards[0]?.focus();
  await user.keyboard("r");
  expect(await screen.findByLabelText("Reason for the model")).toBeTruthy();
  cards[2]?.focus();
  await user.keyboard("a");
  await waitFor(() => expect(accepted).toEqual(["prp_1"]));
});

test("a viewer has no inbox", async () => {
  renderPage({ ...services(), document: { listDocuments: () => ({}) }, tag: { listTags: () => ({}) } }, "/", { ...SESSION, organizationId: "org_2" });
  await screen.findByText("No documents yet");
  expect(screen.queryByRole("link", { name: /Inbox/ })).toBeNull();
});

test("a question about a term is answered with the guess of a model, or dismissed", async () => {
  const calls: object[] = [];
  const question = create(v1.DictionaryQuestionSchema, { dictionaryQuestionId: "dqu_1", documentId: "doc_1", term: "MY", contexts: [`the office in MY ${HOSTILE}`], guess: "Malaysia", confidence: 0.6, etag: "e1" });
  const items = [item("dqu_1", 1, { case: "dictionaryQuestion", value: question }, v1.InboxItemKind.DICTIONARY_QUESTION)];
  const { user } = renderPage(services({
    inbox: { ...services().inbox, listInboxItems: () => ({ items }) },
    dictionary: {
      answerDictionaryQuestion: (request) => {
        calls.push(request);
        if (calls.length === 1) throw refusal(Code.FailedPrecondition, "QUESTION_DECIDED", "the question was dismissed");
        return {};
      },
      dismissDictionaryQuestion: (request) => { calls.push(request); return {}; },
    },
  }), "/inbox");
  expect(await screen.findByText(`the office in MY ${HOSTILE}`)).toBeTruthy();
  expect(screen.getByText("A model inferred “Malaysia” (60%).")).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();
  const meaning = screen.getByLabelText<HTMLInputElement>("Meaning");
  await user.type(meaning, " (country)");
  await user.click(screen.getByRole("button", { name: "Answer" }));
  expect(await screen.findByText("the question was dismissed")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Dismiss" }));
  await waitFor(() => expect(calls).toMatchObject([{ dictionaryQuestionId: "dqu_1", expansion: "Malaysia (country)", etag: "e1" }, { dictionaryQuestionId: "dqu_1", etag: "e1" }]));
  await user.clear(meaning);
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Answer" }).disabled).toBe(true);
});
