import { createContext, useContext } from "react";
import type { v1 } from "folio-client";
import { coversAny, permits, roleOf, type Session } from "./session.js";

export interface SessionActions {
  readonly session: Session | undefined;
  readonly start: (session: Session) => void;
  /** Forgets the token and all loaded data, and shows the sign-in. */
  readonly end: () => void;
  readonly switchTo: (organizationId: string) => void;
}

export const SessionContext = createContext<SessionActions | undefined>(undefined);

export function useSession(): SessionActions {
  const actions = useContext(SessionContext);
  if (actions === undefined) throw new Error("the component needs a session");
  return actions;
}

/** Returns true if the visitor's role permits a minimum role in the current organization or is unknown, and the token covers all scopes. */
export function usePermits(minimum: v1.Role, ...scopes: readonly v1.Scope[]): boolean {
  const { session } = useSession();
  return session !== undefined && permits(roleOf(session), minimum) && scopes.every((scope) => coversAny(session.scopes, [scope]));
}

/** Returns true if the token of the visitor covers one of some scopes. */
export function useCoversAny(...wanted: readonly v1.Scope[]): boolean {
  const { session } = useSession();
  return session !== undefined && coversAny(session.scopes, wanted);
}
