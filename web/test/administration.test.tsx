import { create } from "@bufbuild/protobuf";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { moved, policyOf, sentenceOf, textOfPolicy, withNewRule, withoutRule } from "../src/administration/policy_text.js";
import { roleOfValue } from "../src/administration/roles.js";
import { renderPage } from "./page.js";

const POLICY = create(v1.PolicySchema, {
  rules: [
    { name: "no deletions", tools: ["delete_document"], ruling: { case: "deny", value: {} } },
    { name: "four eyes", ruling: { case: "ask", value: { roles: [v1.Role.ADMIN], notByRequester: true } } },
  ],
});

test("a policy survives its text, and an invalid text has a problem", () => {
  expect(policyOf(textOfPolicy(POLICY))).toEqual({ policy: POLICY });
  for (const text of ["", "[]", '{"rules": 1}', '{"unknown": 1}', '{"rules": [{"name": "x"}]}', JSON.stringify({ rules: Array.from({ length: 101 }, () => ({ name: "x", deny: {} })) })]) {
    expect(policyOf(text)).toHaveProperty("problem");
  }
});

test("rules are moved within the list", () => {
  expect(moved(POLICY, 1, -1).rules.map(({ name }) => name)).toEqual(["four eyes", "no deletions"]);
  expect(moved(POLICY, 0, -1)).toBe(POLICY);
  expect(POLICY.rules.map(sentenceOf)).toEqual(["Denies delete_document.", "Asks for approval of all tools that write, by admins."]);
});

test("a new rule has a free name and permits nothing, and a removed one leaves the others", () => {
  const policy = withNewRule(withNewRule(withoutRule(withNewRule(POLICY), 0)));
  expect(policy.rules.map(({ name }) => name)).toEqual(["four eyes", "Rule 3", "Rule 4", "Rule 5"]);
  expect(policy.rules.slice(1).map(({ ruling, tools }) => [ruling.case, tools])).toEqual(Array(3).fill(["ask", []]));
  expect(policyOf(textOfPolicy(policy))).toHaveProperty("policy");
  expect(POLICY.rules).toHaveLength(2);
});

test("an unknown role of a form is the lowest one", () => {
  expect([roleOfValue("3"), roleOfValue("9"), roleOfValue(null)]).toEqual([v1.Role.ADMIN, v1.Role.VIEWER, v1.Role.VIEWER]);
});

test("the order of rules is saved with the version that was read", async () => {
  const saved: v1.SetPolicyRequest[] = [];
  const { user } = renderPage({ policy: { getPolicy: () => ({ policy: POLICY, etag: "e1" }), setPolicy: (request) => { saved.push(request); return {}; } } }, "/administration/policy");
  await user.click(await screen.findByRole("button", { name: "Move four eyes up" }));
  await user.click(screen.getByRole("button", { name: "Save the policy" }));
  await waitFor(() => expect(saved.map(({ policy, etag }) => [policy?.rules.map(({ name }) => name), etag])).toEqual([[["four eyes", "no deletions"], "e1"]]));
});

test("a rule is removed and another one is added before the policy is saved", async () => {
  const saved: v1.SetPolicyRequest[] = [];
  const { user } = renderPage({ policy: { getPolicy: () => ({ policy: POLICY, etag: "e1" }), setPolicy: (request) => { saved.push(request); return {}; } } }, "/administration/policy");
  await user.click(await screen.findByRole("button", { name: "Remove no deletions" }));
  await user.click(screen.getByRole("button", { name: "Add a rule" }));
  expect(await screen.findByText("2. Rule 2")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Save the policy" }));
  await waitFor(() => expect(saved.map(({ policy }) => policy?.rules.map(({ name }) => name))).toEqual([["four eyes", "Rule 2"]]));
});

test("the secret of a token is shown once and not stored", async () => {
  const { user } = renderPage({
    token: { listTokens: () => ({ tokens: [{ tokenId: "tok_1", name: "ci", role: v1.Role.MEMBER }] }), createToken: () => ({ secret: "folio_secret_value" }) },
  }, "/administration/tokens");
  await user.type(await screen.findByLabelText(/^Purpose/), "ci");
  await user.click(screen.getByRole("button", { name: "Create token" }));
  expect(await screen.findByText("folio_secret_value")).toBeTruthy();
  expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain("folio_secret_value");
  await user.click(screen.getByRole("button", { name: "Close" }));
  await waitFor(() => expect(screen.queryByText("folio_secret_value")).toBeNull());
});

test("members are added and removed, and the section is in the address", async () => {
  const added: v1.AddMemberRequest[] = [];
  const removed: string[] = [];
  const { user } = renderPage({
    organization: {
      listMembers: () => ({ members: [{ userId: "usr_2", name: "Bob", role: v1.Role.VIEWER }] }),
      addMember: (request) => { added.push(request); return {}; },
      removeMember: ({ userId }) => { removed.push(userId); return {}; },
    },
    token: { listTokens: () => ({}) },
  }, "/administration");
  await user.type(await screen.findByLabelText(/^Name/), "Eve");
  await user.click(screen.getByRole("button", { name: "Add member" }));
  await waitFor(() => expect(added.map(({ member }) => [member?.name, member?.role])).toEqual([["Eve", v1.Role.MEMBER]]));
  await user.click(await screen.findByRole("button", { name: "Remove Bob" }));
  await waitFor(() => expect(removed).toEqual(["usr_2"]));
  await user.click(screen.getByRole("tab", { name: "Tokens" }));
  await waitFor(() => expect(window.location.pathname).toBe("/administration/tokens"));
});

test("limits keep what is not changed, and an empty field removes a limit", async () => {
  const saved: v1.SetLimitsRequest[] = [];
  const { user } = renderPage({
    account: { getAccount: () => ({ user: { userId: "usr_1", platform: true } }) },
    limit: {
      getLimits: () => ({ limits: { requestsPerSecond: 10, documents: 5 }, own: { documents: 5, storageBytes: 900n }, etag: "e1" }),
      setLimits: (request) => { saved.push(request); return {}; },
    },
  }, "/administration/limits");
  await user.clear(await screen.findByLabelText("Documents"));
  await user.type(screen.getByLabelText("Requests per second"), "7");
  await user.click(screen.getByRole("button", { name: "Save the limits" }));
  await waitFor(() => expect(saved).toHaveLength(1));
  expect([saved[0]?.own?.requestsPerSecond, saved[0]?.own?.documents, saved[0]?.own?.storageBytes, saved[0]?.etag]).toEqual([7, undefined, 900n, "e1"]);
});

test("a failed delivery is sent again", async () => {
  const again: string[] = [];
  const { user } = renderPage({
    webhookEndpoint: {
      listWebhookEndpoints: () => ({ webhookEndpoints: [{ webhookEndpointId: "whe_1", url: "https://a.example/", eventTypes: ["document.ready"], enabled: true }] }),
      listWebhookDeliveries: () => ({ webhookDeliveries: [{ webhookDeliveryId: "whd_1", eventType: "document.ready", state: v1.WebhookDeliveryState.FAILED, error: { message: "<b>refused</b>" } }] }),
      redeliverWebhook: ({ webhookDeliveryId }) => { again.push(webhookDeliveryId); return {}; },
    },
  }, "/administration/webhooks");
  await user.click(await screen.findByRole("button", { name: "https://a.example/" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(await dialog.findByText("<b>refused</b>")).toBeTruthy();
  await user.click(dialog.getByRole("button", { name: "Deliver again" }));
  await waitFor(() => expect(again).toEqual(["whd_1"]));
});
