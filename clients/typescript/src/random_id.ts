// The ids of requests.

/**
 * Returns a random id of 128 bits in hexadecimal. Browsers have `crypto.randomUUID` only on pages that were loaded over TLS or from the
 * machine of the browser.
 */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
