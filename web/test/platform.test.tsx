import { timestampDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { passwordProblem } from "../src/session/password.js";
import { refusal, renderPage, SESSION, type Services } from "./page.js";

const HOSTILE = "<img src=x onerror=alert(1)>";
const ORGANIZATION = { organizationId: "org_9", name: HOSTILE };

function page(services: Services, path: string, isPlatform = true) {
  return renderPage({ account: { getAccount: () => ({ user: { userId: "usr_1", platform: isPlatform } }) }, ...services }, path);
}

test("the length of a password is checked in characters", () => {
  expect([passwordProblem("a".repeat(12)), passwordProblem("é".repeat(256))]).toEqual([undefined, undefined]);
  for (const password of ["", "a".repeat(11), "a".repeat(257)]) expect(passwordProblem(password)).toBeDefined();
});

test("only the administrator of the platform sees its sections, and a refused one has its state", async () => {
  const { unmount } = page({ organization: { listMembers: () => ({}) } }, "/administration/members");
  expect(await screen.findByRole("tab", { name: "Users" })).toBeTruthy();
  unmount();
  page({ organization: { listOrganizations: () => { throw refusal(Code.PermissionDenied, "ROLE_NOT_ALLOWED"); } } }, "/administration/organizations", false);
  expect(await screen.findByText("You have no access to this")).toBeTruthy();
  expect(screen.queryByRole("tab", { name: "Users" })).toBeNull();
});

test("an organization is created, and the token of its admin is shown once", async () => {
  const created: v1.CreateOrganizationRequest[] = [];
  const { user } = page({
    organization: {
      listOrganizations: () => ({ organizations: [ORGANIZATION] }),
      createOrganization: (request) => { created.push(request); return { adminToken: "folio_admin_secret" }; },
    },
  }, "/administration/organizations");
  await user.type(await screen.findByRole("textbox", { name: /^Name$/ }), "Gamma");
  await user.type(screen.getByRole("textbox", { name: /^Name of the first admin/ }), "Eve");
  await user.click(screen.getByRole("button", { name: "Create organization" }));
  expect(await screen.findByText("folio_admin_secret")).toBeTruthy();
  expect(created.map(({ organization, adminName }) => [organization?.name, adminName])).toEqual([["Gamma", "Eve"]]);
  await user.click(screen.getByRole("button", { name: "Close" }));
  await waitFor(() => expect(screen.queryByText("folio_admin_secret")).toBeNull());
  expect(document.querySelector("img")).toBeNull();
});

test("an organization is deleted only with its exact name", async () => {
  const deleted: v1.DeleteOrganizationRequest[] = [];
  const { user } = page({
    organization: { listOrganizations: () => ({ organizations: [ORGANIZATION] }), deleteOrganization: (request) => { deleted.push(request); return {}; } },
  }, "/administration/organizations");
  await user.click(await screen.findByRole("button", { name: `Delete ${HOSTILE}` }));
  const form = within(await screen.findByRole("dialog"));
  const button = form.getByRole<HTMLButtonElement>("button", { name: "Delete the organization" });
  await user.type(form.getByLabelText("Confirmation"), "other");
  expect(button.disabled).toBe(true);
  await user.clear(form.getByLabelText("Confirmation"));
  await user.type(form.getByLabelText("Confirmation"), HOSTILE);
  await user.click(button);
  await waitFor(() => expect(deleted.map(({ organizationId, name }) => [organizationId, name])).toEqual([["org_9", HOSTILE]]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

test("credit is granted once, also if the answer is lost, and withdrawn", async () => {
  const grants: v1.GrantCreditRequest[] = [];
  const withdrawals: v1.WithdrawCreditRequest[] = [];
  const { user } = page({
    organization: { listOrganizations: () => ({ organizations: [ORGANIZATION] }) },
    credit: {
      grantCredit: (request) => {
        grants.push(request);
        if (grants.length === 1) throw refusal(Code.Internal, "INTERNAL", "lost");
        return {};
      },
      withdrawCredit: (request) => { withdrawals.push(request); return {}; },
    },
  }, "/administration/organizations");
  await user.click(await screen.findByRole("button", { name: `Credit of ${HOSTILE}` }));
  const form = within(await screen.findByRole("dialog"));
  const grant = form.getByRole<HTMLButtonElement>("button", { name: "Grant the credits" });
  expect(grant.disabled).toBe(true);
  await user.type(form.getByRole("textbox", { name: /^Credits/ }), "500");
  await user.type(form.getByLabelText("Last day"), "2027-01-31");
  await user.type(form.getByLabelText("Purpose"), "trial");
  await user.click(grant);
  expect(await form.findByText("lost")).toBeTruthy();
  await user.click(grant);
  expect(await form.findByText("500 credits granted.")).toBeTruthy();
  const [first, second] = grants;
  expect([second?.organizationId, second?.credits, second?.note, first?.requestId === second?.requestId]).toEqual(["org_9", 500n, "trial", true]);
  expect(second?.expireTime && timestampDate(second.expireTime).getFullYear()).toBe(2027);

  await user.click(form.getByRole("radio", { name: "Withdraw" }));
  await user.type(form.getByRole("textbox", { name: /^Credits/ }), "20");
  await user.click(form.getByRole("button", { name: "Withdraw the credits" }));
  await waitFor(() => expect(withdrawals.map(({ organizationId, credits }) => [organizationId, credits])).toEqual([["org_9", 20n]]));
  expect(withdrawals[0]?.requestId).not.toBe(first?.requestId);
});

test("the limits of another organization are changed, and are read-only for its admins", async () => {
  const saved: v1.SetLimitsRequest[] = [];
  const limit = { getLimits: ({ organizationId }: v1.GetLimitsRequest) => ({ own: {}, limits: { documents: 5 }, etag: organizationId }), setLimits: (request: v1.SetLimitsRequest) => { saved.push(request); return {}; } };
  const { user, unmount } = page({ organization: { listOrganizations: () => ({ organizations: [ORGANIZATION] }) }, limit }, "/administration/organizations");
  await user.click(await screen.findByRole("button", { name: `Limits of ${HOSTILE}` }));
  await user.type(await screen.findByLabelText("Documents"), "9");
  await user.click(screen.getByRole("button", { name: "Save the limits" }));
  await waitFor(() => expect(saved.map(({ organizationId, own, etag }) => [organizationId, own?.documents, etag])).toEqual([["org_9", 9, "org_9"]]));
  unmount();
  page({ limit }, "/administration/limits", false);
  expect((await screen.findByLabelText<HTMLInputElement>("Documents")).readOnly).toBe(true);
  expect(screen.queryByRole("button", { name: "Save the limits" })).toBeNull();
});

test("users are created, changed and deleted, and get another password", async () => {
  const calls: [string, unknown][] = [];
  const USER = { userId: "usr_2", name: "Bob", email: "bob@a.example", etag: "u1" };
  const record = (name: string) => (request: unknown) => { calls.push([name, request]); return {}; };
  const { user } = page({
    user: { listUsers: () => ({ users: [USER] }), createUser: record("create"), updateUser: record("update"), resetPassword: record("reset"), deleteUser: record("delete") },
  }, "/administration/users");
  const submit = async (open: string, fill: (form: ReturnType<typeof within>) => Promise<void>, button: string) => {
    await user.click(await screen.findByRole("button", { name: open }));
    const form = within(await screen.findByRole("dialog"));
    await fill(form);
    await user.click(form.getByRole("button", { name: button }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  };
  await submit("New user", async (form) => {
    await user.type(form.getByRole("textbox", { name: /^Name/ }), "Eve");
    await user.type(form.getByRole("textbox", { name: /^E-mail address/ }), "eve@a.example");
    const password = form.getByLabelText(/^First password/);
    await user.type(password, "short");
    expect(form.getByText("A password has 12 to 256 characters.")).toBeTruthy();
    await user.type(password, " but longer");
  }, "Save");
  await submit("Edit Bob", async (form) => user.click(form.getByRole("switch", { name: "May administer the platform" })), "Save");
  await submit("Reset the password of Bob", async (form) => {
    await user.type(form.getByLabelText(/^New password/), "another password");
    await user.click(form.getByLabelText("Revoke the account tokens of the user, too"));
  }, "Set the password");
  await submit("Delete Bob", async (form) => user.type(form.getByLabelText("Confirmation"), "bob@a.example"), "Delete the user");
  expect(calls).toMatchObject([
    ["create", { user: { name: "Eve", email: "eve@a.example", platform: false }, password: "short but longer" }],
    ["update", { user: { userId: "usr_2", platform: true, etag: "u1" }, updateMask: { paths: ["name", "email", "platform"] } }],
    ["reset", { userId: "usr_2", password: "another password", revokeAccountTokens: true }],
    ["delete", { userId: "usr_2", email: "bob@a.example" }],
  ]);
});

const ACCOUNT = { user: { userId: "usr_1", name: "Ada", email: "ada@a.example" } };

test("a changed password ends the session of the tab", async () => {
  const requests: v1.ChangePasswordRequest[] = [];
  const { user } = page({ account: { getAccount: () => ACCOUNT, listAccountTokens: () => ({}), listAccountSessions: () => ({}), changePassword: (request) => { requests.push(request); return {}; } } }, "/account");
  await user.type(await screen.findByLabelText(/^Current password/), "old password");
  await user.type(screen.getByLabelText(/^New password \*|^New password$/), "new password 1");
  const again = screen.getByLabelText(/^New password again/);
  await user.type(again, "other");
  expect(screen.getByText("The passwords differ.")).toBeTruthy();
  await user.clear(again);
  await user.type(again, "new password 1");
  await user.click(screen.getByRole("button", { name: "Change the password" }));
  expect(await screen.findByRole("heading", { name: "Sign in to Folio" })).toBeTruthy();
  expect(requests.map(({ currentPassword, newPassword }) => [currentPassword, newPassword])).toEqual([["old password", "new password 1"]]);
  expect(sessionStorage).toHaveLength(0);
});

test("a wrong password changes nothing, and the name of the account is saved", async () => {
  const names: string[] = [];
  const { user } = page({
    account: {
      getAccount: () => ACCOUNT,
      listAccountTokens: () => ({ tokens: [{ tokenId: "tok_1", name: "laptop" }] }),
      listAccountSessions: () => ({}),
      changePassword: () => { throw refusal(Code.Unauthenticated, "SIGN_IN_FAILED"); },
      updateAccount: ({ name }) => { names.push(name); return {}; },
    },
  }, "/account");
  await user.type(await screen.findByLabelText(/^Current password/), "bad password 1");
  await user.type(screen.getByLabelText(/^New password \*|^New password$/), "new password 1");
  await user.type(screen.getByLabelText(/^New password again/), "new password 1");
  await user.click(screen.getByRole("button", { name: "Change the password" }));
  expect(await screen.findByText("The e-mail address or the password is wrong.")).toBeTruthy();
  expect(await screen.findByRole("button", { name: "Revoke laptop" })).toBeTruthy();
  await user.type(screen.getByRole("textbox", { name: /^Name/ }), " L");
  await user.click(screen.getByRole("button", { name: "Save the name" }));
  await waitFor(() => expect(names).toEqual(["Ada L"]));
  await screen.findByRole("button", { name: "Account: Ada L" });
});

test("a token of an organization has no account", async () => {
  renderPage({}, "/account", { ...SESSION, user: undefined });
  expect(await screen.findByText("No account")).toBeTruthy();
});

test("another session is ended, and the end of the own one signs out", async () => {
  const ended: string[] = [];
  const time = (seconds: number) => ({ seconds: BigInt(seconds), nanos: 0 });
  const { user } = page({
    account: {
      getAccount: () => ACCOUNT,
      listAccountTokens: () => ({}),
      listAccountSessions: () => ({ sessions: [{ sessionId: "tok_1", current: true, createTime: time(1_790_000_000) }, { sessionId: "tok_2", createTime: time(1_780_000_000) }].filter(({ sessionId }) => !ended.includes(sessionId)) }),
      endAccountSession: ({ sessionId }) => { ended.push(sessionId); return {}; },
    },
  }, "/account");
  const table = within(await screen.findByRole("table", { name: "Sessions" }));
  expect(table.getAllByText("This session")).toHaveLength(1);
  await user.click(table.getByRole("button", { name: /^End the session of / }));
  await waitFor(() => expect(table.queryByRole("button", { name: /^End the session of / })).toBeNull());
  await user.click(table.getByRole("button", { name: "End this session" }));
  expect(await screen.findByRole("heading", { name: "Sign in to Folio" })).toBeTruthy();
  expect(ended).toEqual(["tok_2", "tok_1"]);
  expect(sessionStorage).toHaveLength(0);
});
