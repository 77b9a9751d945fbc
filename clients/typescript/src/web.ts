// The client for browsers: gRPC-Web; uploads over REST, because a browser streams no request.
import type { Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client } from "./client.js";
import { Connection, type Platform } from "./connection.js";
import { sendMultipart } from "./multipart.js";
import type { RetryOptions } from "./retry.js";
import { credential, parseAddress } from "./transport.js";
import { sourceOf } from "./uploads.js";

export * from "./exports.js";

/** A file to upload: of an input element, or bytes. */
export type FileInput = Blob | Uint8Array;

/** The server and the token. */
export interface ConnectOptions {
  /** `http://HOST:PORT` or `https://HOST:PORT`; the settings of the server must permit the origin of the page. */
  readonly server: string;
  /** Undefined: only a sign-in is possible, which needs no token. */
  readonly token?: string | undefined;
  /** The id of the organization in which a session or an account token acts. */
  readonly organization?: string | undefined;
  readonly retry?: RetryOptions;
  /** Sends the calls, except uploads. Default: gRPC-Web to `server`. */
  readonly transport?: Transport;
}

/** Returns a client. A page whose size matters calls `openConnection` instead: a client contains the messages of all services. */
export function connect(options: ConnectOptions): Client<FileInput> {
  return new Client(platformOf(options));
}

/** Returns a connection, which contains only the services that the page names. */
export function openConnection(options: ConnectOptions): Connection<FileInput> {
  return new Connection(platformOf(options));
}

function platformOf(options: ConnectOptions): Platform<FileInput> {
  const { server, token, organization } = options;
  const baseUrl = parseAddress(server, false);
  const headers = credential(token, organization);
  return {
    transport: options.transport ?? createGrpcWebTransport({ baseUrl }),
    token,
    organization,
    retry: options.retry,
    source: async (file, options) => sourceOf(file, options),
    send: (connection, source, options, requestId) => sendMultipart(connection, baseUrl, headers, source, options, requestId),
    close: () => undefined,
  };
}
