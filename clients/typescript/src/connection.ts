// A connection, without the functions that differ between Node.js (`node.ts`) and browsers (`web.ts`). A page that uses it loads the
// messages of the services that it names, and no others.
import { create, type DescService, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as ServiceClient, type Transport } from "@connectrpc/connect";
import type { Approver } from "./approvals.js";
import { answerOf, mentionsOf, type Answer, type QuestionOptions } from "./assistant.js";
import { errorOf, errorOfMessage, FolioError } from "./errors.js";
import * as v1 from "./gen/v1.js";
import { itemsOf, nextRequest, type Item, type Page, type PageRequest } from "./paging.js";
import { randomId } from "./random_id.js";
import { rejoined, type Open, type StreamOptions } from "./rejoined.js";
import { RetryPolicy, sleep, type RetryOptions } from "./retry.js";
import { authorized, credential } from "./transport.js";
import { Turn } from "./turn.js";
import type { TurnRequest } from "./turn_position.js";
import { uploadMessages, type FileSource, type UploadOptions } from "./uploads.js";
import { WatchedItems, type WatchResponse } from "./watched_items.js";

const ENDED_JOBS = new Set([v1.JobState.COMPLETED, v1.JobState.FAILED, v1.JobState.CANCELLED]);
const SETTLED_DOCUMENTS = new Set([v1.DocumentState.READY, v1.DocumentState.NO_TEXT, v1.DocumentState.FAILED]);

/** Options of a chat: the fields of `ChatRequest` except the text, and the function that decides about calls. */
export type ChatOptions = Omit<MessageInitShape<typeof v1.ChatRequestSchema>, "text" | "$typeName"> & StreamOptions & {
  /** Decides about each call that waits for approval. Undefined: the events end with `awaitingApproval`. */
  readonly approve?: Approver | undefined;
};

/** Options of a batch: the fields of `RunExtractionsRequest` except the prompt. */
export type BatchOptions = Omit<MessageInitShape<typeof v1.RunExtractionsRequestSchema>, "promptRevid" | "$typeName">;

/** The settings of a client, and the functions that differ between Node.js and browsers. `F` is a file to upload. */
export interface Platform<F> {
  readonly transport: Transport;
  readonly token: string | undefined;
  readonly organization: string | undefined;
  readonly retry: RetryOptions | undefined;
  /** Returns the name, the size and the chunks of a file. */
  source(file: F, options: UploadOptions): Promise<FileSource>;
  /** Uploads a file, without retries. Undefined: the client uploads it with the RPC `UploadDocument`. */
  readonly send?: (connection: Connection<F>, source: FileSource, options: UploadOptions, requestId: string) => Promise<v1.Document>;
  close(): void;
}

/**
 * A connection to a server. `connection.service(v1.TagService)` returns the client of a service of the API. Each call carries the token,
 * and throws a `FolioError` if it fails. A call is repeated if the server states a retry delay or cannot be reached (`RetryOptions`). A
 * request without a `requestId` gets one, so that a repetition has no second effect. The methods of the connection itself combine
 * several calls, and survive a lost connection.
 */
export class Connection<F> {
  readonly #policy: RetryPolicy;
  readonly #transport: Transport;
  readonly #services = new Map<DescService, unknown>();

  /** @internal */
  constructor(private readonly platform: Platform<F>) {
    this.#policy = new RetryPolicy(platform.retry);
    this.#transport = authorized(platform.transport, credential(platform.token, platform.organization), this.#policy);
  }

  /** Returns the client of a service: `connection.service(v1.TagService).listTags({})`. */
  service<S extends DescService>(service: S): ServiceClient<S> {
    const known = this.#services.get(service) as ServiceClient<S> | undefined;
    if (known !== undefined) return known;
    const client = createClient(service, this.#transport);
    this.#services.set(service, client);
    return client;
  }

  /** Closes the connection. Running turns and jobs continue on the server. */
  close(): void {
    this.platform.close();
  }

  /** Returns the items of all pages of a list: `connection.iterate(connection.service(v1.TagService).listTags, { filter: "name:pa" })`. */
  async *iterate<R extends PageRequest, P extends Page>(
    method: (request: R) => Promise<P>,
    request: R,
  ): AsyncGenerator<Item<P>, void> {
    for (let next: R | undefined = request; next !== undefined; ) {
      const page: P = await method(next);
      yield* itemsOf(page);
      next = nextRequest(next, page);
    }
  }

  /** Uploads a file. After a lost connection, the file is sent again. */
  async upload(file: F, options: UploadOptions = {}): Promise<v1.Document> {
    const source = await this.platform.source(file, options);
    const requestId = options.requestId ?? randomId();
    const send = this.platform.send ?? sendByRpc;
    for (let attempt = 1; ; attempt++) {
      try {
        return await send(this, source, options, requestId);
      } catch (reason) {
        const error = errorOf(reason);
        const delay = this.#policy.delay(error, attempt);
        if (delay === undefined) throw error;
        await sleep(delay);
      }
    }
  }

  /** Waits until the state of a document is READY, NO_TEXT or FAILED, and returns the document. */
  async waitForText(documentId: string): Promise<v1.Document> {
    for await (const { change } of this.watchDocument(documentId)) {
      const document = change.case === "document" ? change.value.document : undefined;
      if (document !== undefined && SETTLED_DOCUMENTS.has(document.state)) return document;
    }
    throw new FolioError("NOT_FOUND", "NOT_FOUND", `the document ${documentId} was deleted`);
  }

  /**
   * Sends a message and returns the events of its turn. `documentIds` or `threadId`: the documents of a new thread, or the thread to
   * continue.
   */
  chat(text: string, { approve, signal, ...fields }: ChatOptions): Turn {
    // The idempotency key lets a repetition join the turn.
    const requestId = fields.requestId ?? randomId();
    return this.#turn(create(v1.ChatRequestSchema, { ...fields, text, requestId }), approve, { signal });
  }

  /** Asks the assistant and returns its typed answer. */
  async ask(question: string, options: QuestionOptions = {}): Promise<Answer> {
    const { tagIds: _tags, collectionIds: _collections, ...fields } = options;
    const turn = this.chat(question, { ...fields, profile: "assistant", mentions: mentionsOf(options) });
    const completed = await turn.completed();
    return answerOf(completed, turn.threadId, turn.turnId);
  }

  /** Resumes a failed turn and returns its further events. */
  resume(turnId: string, approve?: Approver, options?: StreamOptions): Turn {
    return this.#turn(create(v1.ResumeTurnRequestSchema, { turnId }), approve, options);
  }

  /** Returns the events of a turn from an event number. */
  watchTurn(turnId: string, fromEvent = 0n, approve?: Approver, options?: StreamOptions): Turn {
    return this.#turn(create(v1.WatchTurnRequestSchema, { turnId, fromEvent }), approve, options);
  }

  #turn(start: TurnRequest, approve: Approver | undefined, options: StreamOptions | undefined): Turn {
    return new Turn(this.service(v1.ConversationService), this.#policy, start, approve, options);
  }

  /** Returns a document and its newest extractions, and then each change. Ends when the document is deleted. */
  async *watchDocument(documentId: string, watch?: StreamOptions): AsyncGenerator<v1.WatchDocumentResponse, void> {
    let hasProgress = false;
    try {
      for await (const change of this.#watch((options) => this.service(v1.DocumentService).watchDocument({ documentId }, options), watch)) {
        hasProgress = true;
        yield change;
      }
    } catch (error) {
      const isDeleted = error instanceof FolioError && error.code === "NOT_FOUND" && hasProgress;
      if (!isDeleted) throw error;
    }
  }

  /** Returns the items that wait for the caller, and then each change, without end. */
  async *watchInbox(filter = "", watch?: StreamOptions): AsyncGenerator<v1.WatchInboxResponse, void> {
    // Loaded on demand: the messages of an inbox contain those of many services, and a page shows its first view without them.
    const { InboxService } = await import("./gen/folio/v1/inbox_pb.js");
    yield* this.#watch((options) => this.service(InboxService).watchInbox({ filter }, options), watch);
  }

  /** Returns the turns that wait for a decision of the caller, and then each change, without end. */
  watchPendingApprovals(filter = "", watch?: StreamOptions): AsyncGenerator<v1.WatchPendingApprovalsResponse, void> {
    return this.#watch((options) => this.service(v1.ConversationService).watchPendingApprovals({ filter }, options), watch);
  }

  async *#watch<W extends WatchResponse>(open: Open<W>, watch: StreamOptions | undefined): AsyncGenerator<W, void> {
    const items = new WatchedItems<W>();
    const start = () => items.startStream();
    for await (const change of this.rejoined(open, start, watch)) yield* items.apply(change);
  }

  /** Returns the messages of a stream that is opened again after a lost connection. `start` is called before each attempt. */
  protected rejoined<T>(open: Open<T>, start?: () => void, watch?: StreamOptions): AsyncGenerator<T, void> {
    return rejoined(this.#policy, open, start, watch);
  }

  /** Returns the states of a job until it has ended. */
  async *watchJob(jobId: string, watch?: StreamOptions): AsyncGenerator<v1.Job, void> {
    for await (const { job } of this.rejoined((options) => this.service(v1.JobService).watchJob({ jobId }, options), undefined, watch)) {
      if (job === undefined) continue;
      yield job;
      if (ENDED_JOBS.has(job.state)) return;
    }
  }

  /** Waits until a job has ended, and returns it. `progress` receives each state of the job. */
  async waitForJob(jobId: string, progress?: (job: v1.Job) => void): Promise<v1.Job> {
    let last = create(v1.JobSchema);
    for await (const job of this.watchJob(jobId)) {
      progress?.(job);
      last = job;
    }
    return last;
  }

  /**
   * Runs a prompt on a document and returns the stored extraction. A long document, and a prompt that an agent runs, are extracted by
   * a job; `progress` receives its states.
   */
  async extract(
    documentId: string,
    promptRevid: string,
    options: { readonly model?: string; readonly progress?: (job: v1.Job) => void } = {},
  ): Promise<v1.Extraction> {
    const request = { documentId, promptRevid, model: options.model ?? "" };
    const { extraction, job } = await this.service(v1.ExtractionService).runExtraction(request);
    if (job === undefined) return present(extraction);
    const extractionId = extractionOf(await this.waitForJob(job.jobId, options.progress));
    return present((await this.service(v1.ExtractionService).getExtraction({ extractionId })).extraction);
  }

  /**
   * Starts a job that runs a prompt on documents: `documentIds`, or those that `documentFilter` selects. `waitForJob` waits for the
   * job, and `iterate(service(v1.JobService).listJobItems, { jobId })` returns its results.
   */
  async batch(promptRevid: string, options: BatchOptions): Promise<v1.Job> {
    return present((await this.service(v1.ExtractionService).runExtractions({ ...options, promptRevid })).job);
  }
}

/** Returns the id of the extraction of an ended job with one item. Throws the error of the item or of the job. */
export function extractionOf(job: v1.Job): string {
  const item = job.items[0];
  const result = JSON.parse(item?.resultJson || "{}") as { extraction_id?: string };
  if (result.extraction_id !== undefined) return result.extraction_id;
  const error = item?.error ?? job.error;
  if (error !== undefined) throw errorOfMessage(error);
  throw new FolioError("CANCELLED", "", `the job ${job.jobId} ended without an extraction`);
}

/** Returns the part of a response that the API guarantees. */
export function present<T>(value: T | undefined): T {
  if (value === undefined) throw new FolioError("INTERNAL", "", "invalid response of the server: a required field is missing");
  return value;
}

async function sendByRpc<F>(
  connection: Connection<F>,
  source: FileSource,
  options: UploadOptions,
  requestId: string,
): Promise<v1.Document> {
  return present((await connection.service(v1.DocumentService).uploadDocument(uploadMessages(source, options, requestId))).document);
}
