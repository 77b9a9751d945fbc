// The client, without the functions that differ between Node.js (`node.ts`) and browsers (`web.ts`).
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Client as ServiceClient, type Transport } from "@connectrpc/connect";
import type { Approver } from "./approvals.js";
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
  readonly send?: (client: Client<F>, source: FileSource, options: UploadOptions, requestId: string) => Promise<v1.Document>;
  close(): void;
}

/**
 * A connection to a server. The attributes are the services of the API: `client.tags.createTag({ tag: { name: "paid" } })`. Each
 * call carries the token, and throws a `FolioError` if it fails. A call is repeated if the server states a retry delay or cannot be
 * reached (`RetryOptions`). A request without a `requestId` gets one, so that a repetition has no second effect. The methods of the
 * client itself combine several calls, and survive a lost connection.
 */
export class Client<F> {
  readonly accounts: ServiceClient<typeof v1.AccountService>;
  readonly audits: ServiceClient<typeof v1.AuditService>;
  readonly completions: ServiceClient<typeof v1.CompletionService>;
  readonly conversations: ServiceClient<typeof v1.ConversationService>;
  readonly credits: ServiceClient<typeof v1.CreditService>;
  readonly dictionary: ServiceClient<typeof v1.DictionaryService>;
  readonly documents: ServiceClient<typeof v1.DocumentService>;
  readonly extractions: ServiceClient<typeof v1.ExtractionService>;
  readonly inbox: ServiceClient<typeof v1.InboxService>;
  readonly jobs: ServiceClient<typeof v1.JobService>;
  readonly limits: ServiceClient<typeof v1.LimitService>;
  readonly mcpServers: ServiceClient<typeof v1.McpServerService>;
  readonly models: ServiceClient<typeof v1.ModelService>;
  readonly organizations: ServiceClient<typeof v1.OrganizationService>;
  readonly policies: ServiceClient<typeof v1.PolicyService>;
  readonly prompts: ServiceClient<typeof v1.PromptService>;
  readonly proposals: ServiceClient<typeof v1.ProposalService>;
  readonly providers: ServiceClient<typeof v1.ProviderService>;
  readonly schemas: ServiceClient<typeof v1.SchemaService>;
  readonly stacks: ServiceClient<typeof v1.StackService>;
  readonly tags: ServiceClient<typeof v1.TagService>;
  readonly threads: ServiceClient<typeof v1.ThreadService>;
  readonly tokens: ServiceClient<typeof v1.TokenService>;
  readonly usages: ServiceClient<typeof v1.UsageService>;
  readonly users: ServiceClient<typeof v1.UserService>;
  readonly webhooks: ServiceClient<typeof v1.WebhookEndpointService>;
  readonly #policy: RetryPolicy;

  /** @internal */
  constructor(private readonly platform: Platform<F>) {
    this.#policy = new RetryPolicy(platform.retry);
    const headers = credential(platform.token, platform.organization);
    const transport = authorized(platform.transport, headers, this.#policy);
    this.accounts = createClient(v1.AccountService, transport);
    this.audits = createClient(v1.AuditService, transport);
    this.completions = createClient(v1.CompletionService, transport);
    this.conversations = createClient(v1.ConversationService, transport);
    this.credits = createClient(v1.CreditService, transport);
    this.dictionary = createClient(v1.DictionaryService, transport);
    this.documents = createClient(v1.DocumentService, transport);
    this.extractions = createClient(v1.ExtractionService, transport);
    this.inbox = createClient(v1.InboxService, transport);
    this.jobs = createClient(v1.JobService, transport);
    this.limits = createClient(v1.LimitService, transport);
    this.mcpServers = createClient(v1.McpServerService, transport);
    this.models = createClient(v1.ModelService, transport);
    this.organizations = createClient(v1.OrganizationService, transport);
    this.policies = createClient(v1.PolicyService, transport);
    this.prompts = createClient(v1.PromptService, transport);
    this.proposals = createClient(v1.ProposalService, transport);
    this.providers = createClient(v1.ProviderService, transport);
    this.schemas = createClient(v1.SchemaService, transport);
    this.stacks = createClient(v1.StackService, transport);
    this.tags = createClient(v1.TagService, transport);
    this.threads = createClient(v1.ThreadService, transport);
    this.tokens = createClient(v1.TokenService, transport);
    this.usages = createClient(v1.UsageService, transport);
    this.users = createClient(v1.UserService, transport);
    this.webhooks = createClient(v1.WebhookEndpointService, transport);
  }

  /** Closes the connection. Running turns and jobs continue on the server. */
  close(): void {
    this.platform.close();
  }

  /** Returns the items of all pages of a list: `client.iterate(client.tags.listTags, { filter: "name:pa" })`. */
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

  /** Resumes a failed turn and returns its further events. */
  resume(turnId: string, approve?: Approver, options?: StreamOptions): Turn {
    return this.#turn(create(v1.ResumeTurnRequestSchema, { turnId }), approve, options);
  }

  /** Returns the events of a turn from an event number. */
  watchTurn(turnId: string, fromEvent = 0n, approve?: Approver, options?: StreamOptions): Turn {
    return this.#turn(create(v1.WatchTurnRequestSchema, { turnId, fromEvent }), approve, options);
  }

  #turn(start: TurnRequest, approve: Approver | undefined, options: StreamOptions | undefined): Turn {
    return new Turn(this.conversations, this.#policy, start, approve, options);
  }

  /** Returns a document and its newest extractions, and then each change. Ends when the document is deleted. */
  async *watchDocument(documentId: string, watch?: StreamOptions): AsyncGenerator<v1.WatchDocumentResponse, void> {
    let hasProgress = false;
    try {
      for await (const change of this.#watch((options) => this.documents.watchDocument({ documentId }, options), watch)) {
        hasProgress = true;
        yield change;
      }
    } catch (error) {
      const isDeleted = error instanceof FolioError && error.code === "NOT_FOUND" && hasProgress;
      if (!isDeleted) throw error;
    }
  }

  /** Returns the items that wait for the caller, and then each change, without end. */
  watchInbox(filter = "", watch?: StreamOptions): AsyncGenerator<v1.WatchInboxResponse, void> {
    return this.#watch((options) => this.inbox.watchInbox({ filter }, options), watch);
  }

  /** Returns the turns that wait for a decision of the caller, and then each change, without end. */
  watchPendingApprovals(filter = "", watch?: StreamOptions): AsyncGenerator<v1.WatchPendingApprovalsResponse, void> {
    return this.#watch((options) => this.conversations.watchPendingApprovals({ filter }, options), watch);
  }

  async *#watch<W extends WatchResponse>(open: Open<W>, watch: StreamOptions | undefined): AsyncGenerator<W, void> {
    const items = new WatchedItems<W>();
    const start = () => items.startStream();
    for await (const change of rejoined(this.#policy, open, start, watch)) yield* items.apply(change);
  }

  /** Returns the states of a job until it has ended. */
  async *watchJob(jobId: string, watch?: StreamOptions): AsyncGenerator<v1.Job, void> {
    for await (const { job } of rejoined(this.#policy, (options) => this.jobs.watchJob({ jobId }, options), undefined, watch)) {
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
    const { extraction, job } = await this.extractions.runExtraction(request);
    if (job === undefined) return present(extraction);
    const extractionId = extractionOf(await this.waitForJob(job.jobId, options.progress));
    return present((await this.extractions.getExtraction({ extractionId })).extraction);
  }

  /**
   * Starts a job that runs a prompt on documents: `documentIds`, or those that `documentFilter` selects. `waitForJob` waits for the
   * job, and `iterate(client.jobs.listJobItems, { jobId })` returns its results.
   */
  async batch(promptRevid: string, options: BatchOptions): Promise<v1.Job> {
    return present((await this.extractions.runExtractions({ ...options, promptRevid })).job);
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

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new FolioError("INTERNAL", "", "invalid response of the server: a required field is missing");
  return value;
}

async function sendByRpc<F>(
  client: Client<F>,
  source: FileSource,
  options: UploadOptions,
  requestId: string,
): Promise<v1.Document> {
  return present((await client.documents.uploadDocument(uploadMessages(source, options, requestId))).document);
}
