// Files to upload. No I/O.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import * as v1 from "./gen/v1.js";

const CHUNK_BYTES = 256 * 1024;

/** A file that can be read several times. */
export interface FileSource {
  readonly name: string;
  readonly size: number;
  /** Returns the bytes from the beginning. */
  chunks(): AsyncIterable<Uint8Array>;
}

/** The description of an upload. */
export interface UploadOptions {
  /** The name of the document. Default: the name of the file. */
  readonly name?: string;
  readonly tagIds?: readonly string[];
  readonly metadata?: Readonly<Record<string, string>>;
  /** The password of a protected PDF. */
  readonly password?: string;
  /** True if an agent makes a proposal for the document. Default: as the organization states. */
  readonly autoCreate?: boolean;
  /** Credits that the model calls of the agent may cost. Default: the budget of the server. */
  readonly creditBudget?: bigint;
  /** Idempotency key. Default: a random one. */
  readonly requestId?: string;
  /** Receives the number of bytes that were sent, and the size of the file. */
  readonly progress?: (sent: number, size: number) => void;
}

/** Returns a source of bytes or of a file of a browser. */
export function sourceOf(data: Uint8Array | Blob, options: UploadOptions): FileSource {
  const blob = data instanceof Blob ? data : new Blob([data as Uint8Array<ArrayBuffer>]);
  const name = options.name ?? ("name" in blob && typeof blob.name === "string" ? blob.name : "");
  if (name === "") throw new TypeError("an upload of bytes needs a name");
  return { name, size: blob.size, chunks: () => blobChunks(blob) };
}

async function* blobChunks(blob: Blob): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < blob.size; start += CHUNK_BYTES) {
    yield new Uint8Array(await blob.slice(start, start + CHUNK_BYTES).arrayBuffer());
  }
}

/** Returns the messages of one attempt. The file is read as the messages are sent. */
export async function* uploadMessages(
  source: FileSource,
  options: UploadOptions,
  requestId: string,
): AsyncGenerator<MessageInitShape<typeof v1.UploadDocumentRequestSchema>> {
  const description = create(v1.DocumentDescriptionSchema, {
    name: source.name,
    tagIds: [...(options.tagIds ?? [])],
    metadata: { ...options.metadata },
    sizeBytes: BigInt(source.size),
    requestId,
    password: options.password ?? "",
    ...(options.autoCreate === undefined ? {} : { autoCreate: options.autoCreate }),
    ...(options.creditBudget === undefined ? {} : { creditBudget: options.creditBudget }),
  });
  yield { part: { case: "description", value: description } };
  let sent = 0;
  for await (const chunk of source.chunks()) {
    yield { part: { case: "chunk", value: chunk } };
    sent += chunk.length;
    options.progress?.(sent, source.size);
  }
}
