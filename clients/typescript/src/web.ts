// The client for browsers: gRPC-Web; uploads over REST, because a browser streams no request.
import type { Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { Client } from "./client.js";
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

/** Returns a client. */
export function connect(options: ConnectOptions): Client<FileInput> {
  const { server, token, organization } = options;
  const baseUrl = parseAddress(server, false);
  const headers = credential(token, organization);
  return new Client<FileInput>({
    transport: options.transport ?? createGrpcWebTransport({ baseUrl }),
    token,
    organization,
    retry: options.retry,
    source: async (file, options) => sourceOf(file, options),
    send: (client, source, options, requestId) => sendMultipart(client, baseUrl, headers, source, options, requestId),
    close: () => undefined,
  });
}
