// Uploads from browsers: a multipart form over REST, because a browser streams no request.
import type { Connection } from "./connection.js";
import { FolioError, type ErrorCode, type FieldViolation } from "./errors.js";
import * as v1 from "./gen/v1.js";
import type { Credential } from "./transport.js";
import type { FileSource, UploadOptions } from "./uploads.js";

/** Error codes by HTTP status. The code of any other status is INTERNAL. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  402: "RESOURCE_EXHAUSTED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  412: "ABORTED",
  413: "INVALID_ARGUMENT",
  422: "INVALID_ARGUMENT",
  429: "RESOURCE_EXHAUSTED",
  499: "CANCELLED",
  501: "UNIMPLEMENTED",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "UNAVAILABLE",
};

/** An HTTP response. `retryAfter`: the header `retry-after`. */
interface Answer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | null;
}

/** Sends a file, without retries, and returns its document. */
export async function sendMultipart<F>(
  connection: Connection<F>,
  baseUrl: string,
  credential: Credential,
  source: FileSource,
  options: UploadOptions,
  requestId: string,
): Promise<v1.Document> {
  const { organization } = await connection.service(v1.OrganizationService).getOrganization({});
  const chunks: BlobPart[] = [];
  for await (const chunk of source.chunks()) chunks.push(chunk as Uint8Array<ArrayBuffer>);
  const form = new FormData();
  form.append("name", source.name);
  form.append("tag_ids", JSON.stringify(options.tagIds ?? []));
  form.append("metadata", JSON.stringify(options.metadata ?? {}));
  if (options.autoCreate !== undefined) form.append("auto_create", String(options.autoCreate));
  if (options.creditBudget !== undefined) form.append("credit_budget", String(options.creditBudget));
  if (options.password !== undefined) form.append("password", options.password);
  form.append("file", new Blob(chunks), source.name);
  const url = `${baseUrl}/v0/orgs/${encodeURIComponent(organization?.organizationId ?? "")}/documents/multipart`;
  const headers = { ...credential, "idempotency-key": requestId };
  const progress = (sent: number) => options.progress?.(Math.min(sent, source.size), source.size);
  const answer = await post(url, headers, form, progress);
  progress(source.size);
  const documentId = documentIdOf(answer);
  const { document } = await connection.service(v1.DocumentService).getDocument({ documentId });
  if (document === undefined) throw new FolioError("INTERNAL", "", "invalid response of the server: the document is missing");
  return document;
}

/** The JSON body of a response. A proxy may have answered, so that any member may be missing or have another type. */
interface Body {
  readonly document?: { readonly document_id?: unknown } | null;
  readonly detail?: unknown;
  readonly code?: unknown;
  readonly retry_after_seconds?: unknown;
}

/** Returns the id of the created document. Throws the error of a refused upload. */
export function documentIdOf({ status, text, retryAfter }: Answer): string {
  const body = parse(text);
  const id = body.document?.document_id;
  if (status >= 200 && status < 300 && typeof id === "string") return id;
  const violations = Array.isArray(body.detail) ? body.detail.map(violationOf) : [];
  const listed = violations.map(({ field, description }) => `${field}: ${description}`).join("; ");
  const detail = typeof body.detail === "string" ? body.detail : listed;
  const reason = typeof body.code === "string" ? body.code : violations.length > 0 ? "INVALID_FIELD" : "";
  // The body comes first, because CORS may hide the header from a page of another origin.
  const seconds = Number(body.retry_after_seconds ?? retryAfter ?? Number.NaN);
  throw new FolioError(CODES[status] ?? "INTERNAL", reason, detail || `the upload failed with HTTP status ${status}`, {
    retryAfter: Number.isFinite(seconds) ? seconds * 1_000 : undefined,
    violations,
  });
}

/** Parses a body. Returns an empty body for text that is not JSON, such as the error page of a proxy. */
function parse(text: string): Body {
  try {
    return (JSON.parse(text) as Body | null) ?? {};
  } catch {
    return {};
  }
}

function violationOf(problem: unknown): FieldViolation {
  const { loc, msg } = (problem ?? {}) as { loc?: unknown; msg?: unknown };
  return { field: Array.isArray(loc) ? loc.join(".") : "", description: String(msg ?? "") };
}

function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: FormData,
  progress: (sent: number) => void,
): Promise<Answer> {
  // `fetch` does not report the progress of an upload.
  if (typeof XMLHttpRequest === "undefined") return postByFetch(url, headers, body);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onload = () => {
      const retryAfter = request.getResponseHeader("retry-after");
      resolve({ status: request.status, text: request.responseText, retryAfter });
    };
    request.onerror = () => reject(new FolioError("UNAVAILABLE", "", "the connection to the server failed"));
    request.send(body);
  });
}

async function postByFetch(url: string, headers: Readonly<Record<string, string>>, body: FormData): Promise<Answer> {
  try {
    const response = await fetch(url, { method: "POST", headers, body });
    return { status: response.status, text: await response.text(), retryAfter: response.headers.get("retry-after") };
  } catch (cause) {
    throw new FolioError("UNAVAILABLE", "", "the connection to the server failed", { cause });
  }
}
