import type { Transport } from "@connectrpc/connect";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useMemo, useState, type ReactNode } from "react";
import { ConnectionContext, connector } from "../api/api.js";
import { followVisibility, StreamSlots } from "../api/stream_slots.js";
import { isSessionEnd } from "../errors/advice.js";
import { storedSession, storeSession, type Session } from "./session.js";
import { SessionContext, type SessionActions } from "./session_context.js";

const FRESH_MS = 5_000;

interface SessionProviderProps {
  readonly transport?: Transport;
  readonly children: ReactNode;
}

/** Provides the session of the tab, its connection and its loaded data. Another session never sees the data of this one. */
export function SessionProvider({ transport, children }: SessionProviderProps) {
  const [session, setSession] = useState<Session | undefined>(() => storedSession(sessionStorage));

  const actions = useMemo<SessionActions>(() => {
    const set = (next: Session | undefined) => {
      storeSession(sessionStorage, next);
      setSession(next);
    };
    return {
      session,
      start: set,
      end: () => set(undefined),
      switchTo: (organizationId) => session && set({ ...session, organizationId }),
    };
  }, [session]);

  const { token, organizationId } = session ?? {};
  const connection = useMemo(() => {
    // A token of an organization refuses the header.
    const isAccount = session?.user !== undefined;
    return { api: connector(location.origin, transport)(token, isAccount ? organizationId || undefined : undefined), slots: new StreamSlots() };
  }, [token, organizationId, transport]);
  useEffect(() => followVisibility(connection.slots, document), [connection]);

  const queries = useMemo(() => queryClient(() => actions.end()), [connection]);

  return (
    <SessionContext value={actions}>
      <ConnectionContext value={connection}>
        <QueryClientProvider client={queries}>{children}</QueryClientProvider>
      </ConnectionContext>
    </SessionContext>
  );
}

/** Returns an empty cache. The client repeats calls itself, so that queries do not. */
function queryClient(endSession: () => void): QueryClient {
  const onError = (error: unknown) => {
    if (isSessionEnd(error)) endSession();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: { queries: { retry: false, staleTime: FRESH_MS }, mutations: { retry: false } },
  });
}
