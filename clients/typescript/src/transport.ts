// A transport that authenticates calls, repeats them, and throws typed errors.
import type { Transport } from "@connectrpc/connect";
import { errorOf } from "./errors.js";
import { sleep, withRequestId, type RetryPolicy } from "./retry.js";

/** Maximum size of a message in bytes: a turn with all its rounds may have this size. */
export const MESSAGE_BYTES = 64 * 1024 * 1024;

const VISIBLE = /^[\x21-\x7e]+$/;

/** Returns the value of the header that authenticates a call. The error message does not contain the token. */
export function authorization(token: string): string {
  const trimmed = token.trim();
  if (!VISIBLE.test(trimmed)) throw new TypeError("the token is empty or contains invalid characters");
  return `Bearer ${trimmed}`;
}

/** Headers of each call. */
export type Credential = Readonly<Record<string, string>>;

/** Returns the headers of each call: the token, and the organization in which a session or an account token acts. */
export function credential(token: string | undefined, organization: string | undefined): Credential {
  const headers: Record<string, string> = {};
  if (token !== undefined) headers["authorization"] = authorization(token);
  if (organization !== undefined) {
    if (!VISIBLE.test(organization)) {
      throw new TypeError("the id of the organization is empty or contains invalid characters");
    }
    headers["folio-organization"] = organization;
  }
  return headers;
}

/**
 * Returns the URL of `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`. An address without a scheme uses TLS if the caller
 * names certificate authorities.
 */
export function parseAddress(server: string, hasAuthorities: boolean): string {
  const text = server.includes("://") ? server : `${hasAuthorities ? "https" : "http"}://${server}`;
  const invalid = `invalid address ${JSON.stringify(server)}: expected HOST:PORT, http://HOST:PORT or https://HOST:PORT`;
  if (!URL.canParse(text)) throw new TypeError(invalid);
  const url = new URL(text);
  if (!["http:", "https:"].includes(url.protocol) || url.hostname === "" || url.search !== "" || url.username !== "") {
    throw new TypeError(invalid);
  }
  if (hasAuthorities && url.protocol !== "https:") {
    throw new TypeError(`certificate authorities require an https:// address, got ${JSON.stringify(server)}`);
  }
  return url.href.replace(/\/+$/, "");
}

export function authorized(inner: Transport, credential: Credential, policy: RetryPolicy): Transport {
  const headers = (given: HeadersInit | undefined): Headers => {
    const all = new Headers(given);
    for (const [name, value] of Object.entries(credential)) all.set(name, value);
    return all;
  };
  return {
    async unary(method, signal, timeoutMs, header, input, contextValues) {
      const request = withRequestId(method.input, input);
      for (let attempt = 1; ; attempt++) {
        try {
          return await inner.unary(method, signal, timeoutMs, headers(header), request, contextValues);
        } catch (reason) {
          const error = errorOf(reason);
          const delay = signal?.aborted === true ? undefined : policy.delay(error, attempt);
          if (delay === undefined) throw error;
          await sleep(delay);
        }
      }
    },
    async stream(method, signal, timeoutMs, header, input, contextValues) {
      try {
        const response = await inner.stream(method, signal, timeoutMs, headers(header), input, contextValues);
        return { ...response, message: typed(response.message) };
      } catch (reason) {
        throw errorOf(reason);
      }
    },
  };
}

async function* typed<T>(messages: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (reason) {
    throw errorOf(reason);
  }
}
