// The client for Node: gRPC over HTTP/2.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { Client } from "./client.js";
import type { RetryOptions } from "./retry.js";
import { MESSAGE_BYTES, parseAddress } from "./transport.js";
import { sourceOf, type FileSource, type UploadOptions } from "./uploads.js";

export * from "./exports.js";

const KEEPALIVE_MILLISECONDS = 20_000;

/** A file to upload: a path, or bytes. */
export type FileInput = string | Uint8Array | Blob;

/** The server and the token. */
export interface ConnectOptions {
  /** `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. */
  readonly server: string;
  /** Undefined: only a sign-in is possible, which needs no token. */
  readonly token?: string | undefined;
  /** The id of the organization in which a session or an account token acts. */
  readonly organization?: string | undefined;
  /** PEM of the certificate authorities to trust for `https://`. Default: those of Node. */
  readonly certificateAuthorities?: string | Uint8Array;
  readonly retry?: RetryOptions;
}

/** Returns a client. It connects with the first call. */
export function connect(options: ConnectOptions): Client<FileInput> {
  const { server, token, organization, certificateAuthorities: ca } = options;
  const baseUrl = parseAddress(server, ca !== undefined);
  const pings = { pingIntervalMs: KEEPALIVE_MILLISECONDS };
  const tls = ca === undefined ? {} : { ca: typeof ca === "string" ? ca : Buffer.from(ca) };
  const sessionManager = new Http2SessionManager(baseUrl, pings, tls);
  const transport = createGrpcTransport({ baseUrl, sessionManager, readMaxBytes: MESSAGE_BYTES });
  const close = () => sessionManager.abort();
  return new Client<FileInput>({ transport, token, organization, retry: options.retry, source, close });
}

async function source(file: FileInput, options: UploadOptions): Promise<FileSource> {
  if (typeof file !== "string") return sourceOf(file, options);
  const { size } = await stat(file);
  return { name: options.name ?? basename(file), size, chunks: () => createReadStream(file) };
}
