// The connection of the page to the server that served it.
import type { Transport } from "@connectrpc/connect";
import type { Connection as ServerConnection } from "folio-client";
import { openConnection, type FileInput } from "folio-client/web";
import { createContext, useContext, useEffect, useRef } from "react";
import { StreamSlots } from "./stream_slots.js";

/** `api.service(v1.TagService)` is a service. A view names its services, so that the page loads their messages with the view. */
export type Api = ServerConnection<FileInput>;

/** The connection with the token of the session, and the streams of the tab. */
export interface Connection {
  readonly api: Api;
  readonly slots: StreamSlots;
}

export const ConnectionContext = createContext<Connection | undefined>(undefined);

/** Returns the function that connects to a server. `transport`: replaces gRPC-Web in tests. */
export function connector(server: string, transport?: Transport) {
  return (token: string | undefined, organizationId: string | undefined): Api =>
    openConnection({ server, token, organization: organizationId, ...(transport && { transport }) });
}

/** Returns the API with the token of the session. */
export function useApi(): Api {
  return useConnection().api;
}

export function useConnection(): Connection {
  const connection = useContext(ConnectionContext);
  if (connection === undefined) throw new Error("the component needs a connection");
  return connection;
}

/**
 * Runs a stream while the component is mounted, the tab is visible and a slot is free. `key`: a new one starts another stream;
 * undefined: no stream. `run` must continue from its own position, because it may be called several times. `isBackground`: true if every
 * other stream of the tab is more important.
 */
export function useStream(key: string | undefined, run: (signal: AbortSignal) => Promise<void>, isBackground = false): void {
  const { slots } = useConnection();
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => (key === undefined ? undefined : slots.add((signal) => latest.current(signal), isBackground)), [slots, key, isBackground]);
}
