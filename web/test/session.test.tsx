import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test } from "vitest";
import { coversAny, permits, storedSession, storeSession } from "../src/session/session.js";
import { refusal, renderPage, SESSION, type Services } from "./page.js";

const organizations = [
  { organization: { organizationId: "org_1", name: "Alpha" }, role: v1.Role.MEMBER },
  { organization: { organizationId: "org_2", name: "Beta" }, role: v1.Role.VIEWER },
];
const document = { listDocuments: () => ({ documents: [{ documentId: "doc_1", name: "a.pdf" }], totalSize: 1 }) };
const tag = { listTags: () => ({}) };

describe("the stored session", () => {
  test("is read back, and an invalid one is ignored", () => {
    storeSession(sessionStorage, SESSION);
    expect(storedSession(sessionStorage)).toEqual(SESSION);
    for (const invalid of ["{", "null", "[]", '{"token": 1}', '{"token":"a","organizationId":"b","memberships":{}}', '{"token":"a","organizationId":"b","memberships":[],"scopes":1}']) {
      sessionStorage.setItem("folio.session", invalid);
      expect(storedSession(sessionStorage)).toBeUndefined();
    }
  });
});

test("an unknown role is decided by the server", () => {
  expect(permits(undefined, v1.Role.ADMIN)).toBe(true);
  expect(permits(v1.Role.VIEWER, v1.Role.MEMBER)).toBe(false);
});

test("a visitor signs in with a password, and the token is in the session storage only", async () => {
  const services: Services = {
    account: {
      signIn: ({ email, password }) => {
        if (password !== "correct horse battery") throw refusal(Code.Unauthenticated, "SIGN_IN_FAILED");
        return { sessionToken: "folio_session_secret", user: { userId: "usr_1", name: email } };
      },
      listAccountOrganizations: () => ({ organizations }),
    },
    document,
    tag,
  };
  const { user } = renderPage(services, "/", null);
  await user.type(await screen.findByLabelText(/E-mail/), "ada@example.com");
  await user.type(screen.getByLabelText(/^Password/, { selector: "input" }), "a wrong password");
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(await screen.findByText(/e-mail address or the password is wrong/)).toBeTruthy();
  await user.clear(screen.getByLabelText(/^Password/, { selector: "input" }));
  await user.type(screen.getByLabelText(/^Password/, { selector: "input" }), "correct horse battery");
  await user.click(screen.getByRole("button", { name: "Sign in" }));
  expect(await screen.findByText("a.pdf")).toBeTruthy();
  expect(sessionStorage.getItem("folio.session")).toContain("folio_session_secret");
  expect(JSON.stringify({ ...localStorage })).not.toContain("folio_session_secret");
  expect(window.document.cookie).toBe("");
});

test("an access token of an organization has a role, but no account", async () => {
  const services: Services = {
    account: { getAccount: () => { throw refusal(Code.PermissionDenied, "SCOPE_NOT_ALLOWED"); } },
    organization: { getOrganization: () => ({ organization: { organizationId: "org_9", name: "Gamma" }, callerRole: v1.Role.VIEWER }) },
    document,
    tag,
  };
  const { user } = renderPage(services, "/", null);
  await user.click(await screen.findByRole("tab", { name: "Token" }));
  await user.type(screen.getByLabelText(/^Token/, { selector: "input" }), " folio_abc ");
  await user.click(screen.getByRole("button", { name: "Continue" }));
  expect(await screen.findByText("a.pdf")).toBeTruthy();
  expect(storedSession(sessionStorage)).toMatchObject({ token: "folio_abc", organizationId: "org_9" });
  expect(storedSession(sessionStorage)?.user).toBeUndefined();
  expect(storedSession(sessionStorage)?.memberships.map(({ role }) => role)).toEqual([v1.Role.VIEWER]);
  expect(screen.queryByRole("button", { name: "Upload" })).toBeNull();
});

test("the organization is switched, and its header is sent", async () => {
  const seen: (string | null)[] = [];
  const services: Services = {
    document: {
      listDocuments: (_request, { requestHeader }) => {
        const organization = requestHeader.get("folio-organization");
        seen.push(organization);
        return { documents: [{ documentId: "doc_1", name: `${organization}.pdf` }], totalSize: 1 };
      },
    },
    tag,
  };
  const { user } = renderPage(services);
  await screen.findByText("org_1.pdf");
  await user.click(screen.getByRole("button", { name: "Organization" }));
  await user.click(await screen.findByRole("menuitem", { name: "Beta" }));
  expect(await screen.findByText("org_2.pdf")).toBeTruthy();
  expect(screen.queryByText("org_1.pdf")).toBeNull();
  // A viewer has no uploads.
  expect(screen.queryByRole("button", { name: "Upload" })).toBeNull();
  expect(new Set(seen)).toEqual(new Set(["org_1", "org_2"]));
});

test("a refused token ends the session", async () => {
  const services: Services = { document: { listDocuments: () => { throw refusal(Code.Unauthenticated, "INVALID_TOKEN"); } }, tag };
  renderPage(services);
  expect(await screen.findByRole("heading", { name: "Sign in to Folio" })).toBeTruthy();
  expect(sessionStorage.getItem("folio.session")).toBeNull();
});

test("a sign-out ends the session on the server", async () => {
  let ended = 0;
  const services: Services = { account: { signOut: () => { ended += 1; return {}; } }, document, tag };
  const { user } = renderPage(services);
  await user.click(await screen.findByRole("button", { name: "Account: Ada" }));
  await user.click(await screen.findByRole("menuitem", { name: "Sign out" }));
  expect(await screen.findByRole("heading", { name: "Sign in to Folio" })).toBeTruthy();
  await waitFor(() => expect(ended).toBe(1));
});

test("a restricted token covers its scopes, and any other token all of them", () => {
  const { DOCUMENTS, USAGE, DEFINITIONS } = v1.Scope;
  expect([undefined, []].map((scopes) => coversAny(scopes, [USAGE]))).toEqual([true, true]);
  expect([[USAGE], [DEFINITIONS, DOCUMENTS]].map((wanted) => coversAny([DOCUMENTS], wanted))).toEqual([false, true]);
});

test("a restricted token has the views and actions of its scopes", async () => {
  const reads: string[] = [];
  const services: Services = {
    account: { getAccount: () => { throw refusal(Code.PermissionDenied, "ROLE_NOT_ALLOWED"); } },
    organization: { getOrganization: () => ({ organization: { organizationId: "org_9", name: "Gamma", autoCreate: true }, callerRole: v1.Role.ADMIN, callerScopes: [v1.Scope.DOCUMENTS] }) },
    inbox: { listInboxItems: () => { reads.push("inbox"); return {}; } },
    document,
    tag,
  };
  const { user } = renderPage(services, "/", null);
  await user.click(await screen.findByRole("tab", { name: "Token" }));
  await user.type(screen.getByLabelText(/^Token/, { selector: "input" }), "folio_abc");
  await user.click(screen.getByRole("button", { name: "Continue" }));
  expect(await screen.findByText("a.pdf")).toBeTruthy();
  const views = within(screen.getByRole("navigation", { name: "Views" }));
  expect(views.getAllByRole("link").map(({ textContent }) => textContent)).toEqual(["Documents", "Search", "Missing links"]);
  expect(screen.getByRole("button", { name: "Upload" })).toBeTruthy();
  // The agent of an upload would write definitions.
  expect(screen.queryByRole("switch", { name: "Automatic creation" })).toBeNull();
  expect(reads).toEqual([]);
});

test("the scopes of an account token are those in its organization", async () => {
  const services: Services = {
    account: { getAccount: () => ({ user: { userId: "usr_1", name: "Ada" } }), listAccountOrganizations: () => ({ organizations }) },
    organization: { getOrganization: (_request, { requestHeader }) => ({ callerScopes: requestHeader.get("folio-organization") === null ? [] : [v1.Scope.USAGE] }) },
    usage: { getBalance: () => ({}), getUsage: () => ({}) },
    document,
    tag,
  };
  const { user } = renderPage(services, "/", null);
  await user.click(await screen.findByRole("tab", { name: "Token" }));
  await user.type(screen.getByLabelText(/^Token/, { selector: "input" }), "folio_account");
  await user.click(screen.getByRole("button", { name: "Continue" }));
  const views = within(await screen.findByRole("navigation", { name: "Views" }));
  expect(views.getAllByRole("link").map(({ textContent }) => textContent)).toEqual(["Usage"]);
  expect(storedSession(sessionStorage)?.scopes).toEqual([v1.Scope.USAGE]);
});
