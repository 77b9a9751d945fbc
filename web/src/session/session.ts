// The session of a tab: its token and the organization in which it acts.
import { FolioError, v1 } from "folio-client";
import type { Api } from "../api/api.js";

/** An organization that the visitor may choose. */
export interface Membership {
  readonly organizationId: string;
  readonly name: string;
  /** Undefined: the server states none. */
  readonly role: v1.Role | undefined;
}

export interface Session {
  readonly token: string;
  readonly organizationId: string;
  readonly memberships: readonly Membership[];
  /** Undefined: the token belongs to an organization, not to an account. */
  readonly user: { readonly userId: string; readonly name: string } | undefined;
  /** True if the visitor signed in with a password, so that a sign-out ends the token. */
  readonly isPassword: boolean;
  /** The scopes that the token is restricted to. Undefined or empty: every part of the API that the role permits. */
  readonly scopes?: readonly v1.Scope[];
}

const KEY = "folio.session";
/** Maximum number of organizations in the switch, as many as a page of the server has. */
const MEMBERSHIPS_MAX = 1_000;

/** The part of `sessionStorage` that the session uses. */
export type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** Stores the session for reloads of this tab. Other tabs and later browser sessions do not see it. */
export function storeSession(store: Store, session: Session | undefined): void {
  if (session === undefined) store.removeItem(KEY);
  else store.setItem(KEY, JSON.stringify(session));
}

/** Returns the stored session. Undefined: none, or its content is invalid. */
export function storedSession(store: Store): Session | undefined {
  try {
    const value = JSON.parse(store.getItem(KEY) ?? "null") as Partial<Session> | null;
    const isValid =
      typeof value?.token === "string" && typeof value.organizationId === "string" && Array.isArray(value.memberships) && (value.scopes === undefined || Array.isArray(value.scopes));
    return isValid ? (value as Session) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the role of the visitor in the chosen organization. Undefined: unknown. */
export function roleOf(session: Session): v1.Role | undefined {
  return session.memberships.find(({ organizationId }) => organizationId === session.organizationId)?.role;
}

/** Returns true if the role permits a minimum role, or if the role is unknown: the server decides then. */
export function permits(role: v1.Role | undefined, minimum: v1.Role): boolean {
  return role === undefined || role >= minimum;
}

/** Returns true if a token covers one of some scopes. `scopes`: those of the token. */
export function coversAny(scopes: readonly v1.Scope[] | undefined, wanted: readonly v1.Scope[]): boolean {
  return scopes === undefined || scopes.length === 0 || wanted.some((scope) => scopes.includes(scope));
}

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
