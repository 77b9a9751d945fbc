// The start and the end of a session on the server. The page loads these calls when they are needed.
import { FolioError, v1 } from "folio-client";
import type { Api } from "../api/api.js";
import type { Membership, Session } from "./session.js";

/** Maximum number of organizations in the switch, as many as a page of the server has. */
const MEMBERSHIPS_MAX = 1_000;

/** Signs in with a password. */
export async function signInWithPassword(connect: Connect, email: string, password: string): Promise<Session> {
  const { sessionToken, user } = await connect(undefined, undefined).service(v1.AccountService).signIn({ email, password });
  const memberships = await membershipsOf(connect(sessionToken, undefined));
  return sessionOf(sessionToken, memberships, user, true);
}

/** Signs in with an access token, an account token or a JWT of an issuer that the server knows. */
export async function signInWithToken(connect: Connect, token: string): Promise<Session> {
  const api = connect(token, undefined);
  const account = await accountOf(api, token);
  if (account?.organizationId === "") return account;
  if (account !== undefined) {
    const { callerScopes } = await connect(token, account.organizationId).service(v1.OrganizationService).getOrganization({});
    return { ...account, scopes: callerScopes };
  }
  const { organization, callerRole, callerScopes } = await api.service(v1.OrganizationService).getOrganization({});
  const { organizationId = "", name = "" } = organization ?? {};
  return { ...sessionOf(token, [{ organizationId, name, role: callerRole || undefined }], undefined, false), scopes: callerScopes };
}

/** Returns the session of a token of an account. Undefined: the token belongs to an organization. */
async function accountOf(api: Api, token: string): Promise<Session | undefined> {
  try {
    const { user } = await api.service(v1.AccountService).getAccount({});
    return sessionOf(token, await membershipsOf(api), user, false);
  } catch (error) {
    if (!(error instanceof FolioError) || error.code === "UNAUTHENTICATED" || error.code === "UNAVAILABLE") throw error;
    return undefined;
  }
}

/** Connects with a token in an organization; both may be undefined. */
export type Connect = (token: string | undefined, organizationId: string | undefined) => Api;

async function membershipsOf(api: Api): Promise<Membership[]> {
  const { organizations } = await api.service(v1.AccountService).listAccountOrganizations({ pageSize: MEMBERSHIPS_MAX, orderBy: "name" });
  return organizations.map(({ organization, role }) => ({
    organizationId: organization?.organizationId ?? "",
    name: organization?.name ?? "",
    role,
  }));
}

function sessionOf(token: string, memberships: Membership[], user: v1.User | undefined, isPassword: boolean): Session {
  const organizationId = memberships[0]?.organizationId ?? "";
  return { token, organizationId, memberships, user: user && { userId: user.userId, name: user.name }, isPassword };
}

/** Ends the session on the server. */
export async function signOut(api: Api): Promise<void> {
  await api.service(v1.AccountService).signOut({});
}
