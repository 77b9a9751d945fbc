import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { changedCalls, turnOfCall, verdictText } from "../src/administration/dry_run.js";
import { refusal, renderPage, type Services } from "./page.js";

const { RUNS, WAITS, DENIED } = v1.Verdict;
const HOSTILE = "<img src=x onerror=alert(1)>";
const call = (callId: string, current: object, candidate: object) =>
  create(v1.TestedCallSchema, { callId, tool: "create_tag", userId: "usr_1", current, candidate });
const ASK = { verdict: WAITS, rule: "four eyes", ask: { roles: [v1.Role.ADMIN], notByRequester: true } };
const CALLS = [
  call("trn_1.2.1.1", { verdict: RUNS }, { verdict: DENIED, rule: HOSTILE }),
  call("trn_1.2.1.2", ASK, { ...ASK, ask: { roles: [v1.Role.ADMIN] } }),
  call("trn_1.2.2.1", ASK, ASK),
];

test("a call changes if its verdict, rule or approvers differ", () => {
  expect(changedCalls(CALLS).map(({ callId }) => callId)).toEqual(["trn_1.2.1.1", "trn_1.2.1.2"]);
  expect(changedCalls([call("c", { ...ASK, rule: "a" }, { ...ASK, rule: "b" })])).toHaveLength(1);
  expect(verdictText(create(v1.PolicyVerdictSchema, ASK))).toBe("waits for approval by admins, not by the requester (rule “four eyes”)");
  expect(verdictText(undefined)).toBe("unknown");
  expect([turnOfCall("trn_1.2.1.1"), turnOfCall("trn_1.1.1"), turnOfCall("odd")]).toEqual(["trn_1.2", "trn_1", ""]);
});

function page(testPolicy: (request: v1.TestPolicyRequest) => object, further: Services = {}) {
  return renderPage({ policy: { getPolicy: () => ({ policy: { rules: [{ name: "r", ruling: { case: "deny", value: {} } }] }, etag: "e1" }), testPolicy }, ...further }, "/administration/policy");
}
const run = () => screen.findByRole("button", { name: "Test on recorded calls" });

test("a dry run shows the counts and the calls that change, and opens their conversation", async () => {
  const requests: v1.TestPolicyRequest[] = [];
  const turns: string[] = [];
  const { user } = page((request) => {
    requests.push(request);
    return { calls: CALLS, counts: [{ current: RUNS, candidate: DENIED, calls: 1 }, { current: WAITS, candidate: WAITS, calls: 2 }], changed: 2, hasMore: true };
  }, {
    conversation: { getTurn: ({ turnId }) => { turns.push(turnId); return { turn: { turnId, threadId: "thr_1" } }; } },
    thread: { getThread: () => ({ thread: { threadId: "thr_1", documentIds: ["doc_1"] } }) },
  });
  await user.click(await run());
  expect(await screen.findByText("2 of 3 calls change. Older calls were not tested.")).toBeTruthy();
  expect(requests.map(({ policy, callsMax }) => [policy?.rules.map(({ name }) => name), callsMax])).toEqual([[["r"], 1_000]]);
  const counts = within(screen.getByRole("table", { name: "Calls by verdict" })).getAllByRole("row").map(({ textContent }) => textContent);
  expect(counts.slice(1)).toEqual(["runsis denied1", "waits for approvalwaits for approval2"]);
  const changed = within(screen.getByRole("table", { name: "Calls that change" }));
  expect(changed.getAllByRole("row")).toHaveLength(3);
  expect(changed.getByText(`is denied (rule “${HOSTILE}”)`)).toBeTruthy();
  expect(document.querySelector("img")).toBeNull();

  await user.click(screen.getByRole("button", { name: "Open the conversation of create_tag, trn_1.2.1.1" }));
  await waitFor(() => expect(`${window.location.pathname}${window.location.search}`).toBe("/documents/doc_1?panel=agent&thread=thr_1"));
  expect(turns[0]).toBe("trn_1.2");
});

test("a result of other rules says so, and an invalid policy is not tested", async () => {
  const { user } = page(() => ({ calls: CALLS, changed: 2 }));
  await user.click(await run());
  await screen.findByText("2 of 3 calls change.");
  const text = await screen.findByRole("textbox", { name: "Policy" });
  await user.clear(text);
  expect(await screen.findByText("The rules were changed after this test. Test them again.")).toBeTruthy();
  expect((await run() as HTMLButtonElement).disabled).toBe(true);
});

test("no recorded calls and a refusal have their texts", async () => {
  let isRefused = true;
  const { user } = page(() => {
    if (isRefused) throw refusal(Code.InvalidArgument, "INVALID_FIELD", "unknown tool");
    return {};
  });
  await user.click(await run());
  expect(await screen.findByText("unknown tool")).toBeTruthy();
  isRefused = false;
  await user.click(await run());
  expect(await screen.findByText("No recorded calls")).toBeTruthy();
});
