// The session of a tab: its token and the organization in which it acts.
import type { v1 } from "folio-client";

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
