// Events of webhooks: signatures according to Standard Webhooks.
import { Webhook } from "standardwebhooks";

const PREFIX = "whsec_";
/** A larger body is no event of Folio. */
const BODY_BYTES = 64 * 1024;

/** The request is not an event that was signed with the secret within the last five minutes. */
export class InvalidSignature extends Error {
  override readonly name = "InvalidSignature";
}

/** A verified event. */
export interface WebhookEvent {
  /** Identifies the event; an event may be delivered several times. */
  readonly id: string;
  /** The type, such as `document.ready`. */
  readonly type: string;
  readonly timestamp: Date;
  /** Ids, states and versions. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The headers of a request: of `fetch`, or of a server of Node. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Returns the event of a request after a check of its signature and its time. `secret`: the secret of the endpoint. `body`: the
 * unchanged bytes of the request. Throws `InvalidSignature`.
 */
export function verifyWebhook(secret: string, headers: WebhookHeaders, body: Uint8Array): WebhookEvent {
  if (body.length > BODY_BYTES) {
    throw new InvalidSignature(`the body has ${body.length} bytes; an event has at most ${BODY_BYTES}`);
  }
  const webhook = webhookOf(secret);
  const entries = headers instanceof Headers ? [...headers.entries()] : Object.entries(headers);
  const byName = Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), String(value ?? "")]));
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(body);
    const event = webhook.verify(text, byName) as Record<string, unknown>;
    const timestamp = new Date(event.timestamp as string);
    if (typeof event.type !== "string" || typeof event.data !== "object" || Number.isNaN(timestamp.getTime())) {
      throw new TypeError("the body is not an event");
    }
    return { id: byName["webhook-id"] ?? "", type: event.type, timestamp, data: event.data as Record<string, unknown> };
  } catch (error) {
    throw new InvalidSignature(error instanceof Error ? error.message : String(error));
  }
}

function webhookOf(secret: string): Webhook {
  try {
    // The library removes the prefix and decodes the rest; any other secret is a key as it is.
    if (secret.startsWith(PREFIX)) return new Webhook(secret);
    return new Webhook(new TextEncoder().encode(secret), { format: "raw" });
  } catch {
    throw new TypeError(`invalid secret: expected Base64 after ${PREFIX}, or any other text`);
  }
}
