// The client: a connection whose attributes are the services of the API.
import { create } from "@bufbuild/protobuf";
import type { Client as ServiceClient } from "@connectrpc/connect";
import { Connection, present, type Platform } from "./connection.js";
import { FolioError } from "./errors.js";
import * as v1 from "./gen/v1.js";
import type { StreamOptions } from "./rejoined.js";
import { WatchedTable } from "./watched_table.js";

/** Number of rows of a page of a list. */
const PAGE_ROWS = 100;

/** Options of a job that fills a table. */
export interface FillOptions {
  readonly model?: string;
  /** The credit that the model calls may cost. Undefined: no budget. */
  readonly creditBudget?: bigint;
}

/** A connection to a server. The attributes are the services of the API: `client.tags.createTag({ tag: { name: "paid" } })`. */
export class Client<F> extends Connection<F> {
  readonly accounts: ServiceClient<typeof v1.AccountService>;
  readonly audits: ServiceClient<typeof v1.AuditService>;
  readonly collections: ServiceClient<typeof v1.CollectionService>;
  readonly completions: ServiceClient<typeof v1.CompletionService>;
  readonly conversations: ServiceClient<typeof v1.ConversationService>;
  readonly credits: ServiceClient<typeof v1.CreditService>;
  readonly dictionary: ServiceClient<typeof v1.DictionaryService>;
  readonly documents: ServiceClient<typeof v1.DocumentService>;
  readonly extractions: ServiceClient<typeof v1.ExtractionService>;
  readonly inbox: ServiceClient<typeof v1.InboxService>;
  readonly ingestions: ServiceClient<typeof v1.IngestionService>;
  readonly jobs: ServiceClient<typeof v1.JobService>;
  readonly limits: ServiceClient<typeof v1.LimitService>;
  readonly links: ServiceClient<typeof v1.LinkService>;
  readonly mcpServers: ServiceClient<typeof v1.McpServerService>;
  readonly models: ServiceClient<typeof v1.ModelService>;
  readonly organizations: ServiceClient<typeof v1.OrganizationService>;
  readonly policies: ServiceClient<typeof v1.PolicyService>;
  readonly prompts: ServiceClient<typeof v1.PromptService>;
  readonly proposals: ServiceClient<typeof v1.ProposalService>;
  readonly providers: ServiceClient<typeof v1.ProviderService>;
  readonly retrieval: ServiceClient<typeof v1.RetrievalService>;
  readonly schemas: ServiceClient<typeof v1.SchemaService>;
  readonly stacks: ServiceClient<typeof v1.StackService>;
  readonly tags: ServiceClient<typeof v1.TagService>;
  readonly threads: ServiceClient<typeof v1.ThreadService>;
  readonly tokens: ServiceClient<typeof v1.TokenService>;
  readonly usages: ServiceClient<typeof v1.UsageService>;
  readonly users: ServiceClient<typeof v1.UserService>;
  readonly webhooks: ServiceClient<typeof v1.WebhookEndpointService>;

  /** @internal */
  constructor(platform: Platform<F>) {
    super(platform);
    this.accounts = this.service(v1.AccountService);
    this.audits = this.service(v1.AuditService);
    this.collections = this.service(v1.CollectionService);
    this.completions = this.service(v1.CompletionService);
    this.conversations = this.service(v1.ConversationService);
    this.credits = this.service(v1.CreditService);
    this.dictionary = this.service(v1.DictionaryService);
    this.documents = this.service(v1.DocumentService);
    this.extractions = this.service(v1.ExtractionService);
    this.inbox = this.service(v1.InboxService);
    this.ingestions = this.service(v1.IngestionService);
    this.jobs = this.service(v1.JobService);
    this.limits = this.service(v1.LimitService);
    this.links = this.service(v1.LinkService);
    this.mcpServers = this.service(v1.McpServerService);
    this.models = this.service(v1.ModelService);
    this.organizations = this.service(v1.OrganizationService);
    this.policies = this.service(v1.PolicyService);
    this.prompts = this.service(v1.PromptService);
    this.proposals = this.service(v1.ProposalService);
    this.providers = this.service(v1.ProviderService);
    this.retrieval = this.service(v1.RetrievalService);
    this.schemas = this.service(v1.SchemaService);
    this.stacks = this.service(v1.StackService);
    this.tags = this.service(v1.TagService);
    this.threads = this.service(v1.ThreadService);
    this.tokens = this.service(v1.TokenService);
    this.usages = this.service(v1.UsageService);
    this.users = this.service(v1.UserService);
    this.webhooks = this.service(v1.WebhookEndpointService);
  }

  /** Starts a job that fills the missing cells of a table. `waitForJob` waits for the job. */
  async fillStack(stackId: string, options: FillOptions = {}): Promise<v1.Job> {
    return present((await this.stacks.fillStack({ ...options, stackId })).job);
  }

  /** Returns a table as a file, which is read into memory. */
  async exportTable(
    stackId: string,
    format: v1.ExportFormat,
    options: { readonly includeDetails?: boolean } = {},
  ): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    for await (const { chunk } of this.stacks.exportTable({ ...options, stackId, format })) chunks.push(chunk);
    const file = new Uint8Array(chunks.reduce((size, chunk) => size + chunk.length, 0));
    let position = 0;
    for (const chunk of chunks) {
      file.set(chunk, position);
      position += chunk.length;
    }
    return file;
  }

  /**
   * Returns the stack and its rows, and then each change. Ends when the stack is deleted. All rows are returned again after a change of
   * the stack, and those that changed meanwhile after a lost connection.
   */
  async *watchTable(stackId: string, watch?: StreamOptions): AsyncGenerator<v1.WatchTableResponse, void> {
    const table = new WatchedTable();
    const request = { stackId, pageSize: PAGE_ROWS, orderBy: "create_time" };
    let isKnown = false;
    try {
      const start = () => table.startStream();
      for await (const response of this.rejoined((options) => this.stacks.watchTable({ stackId }, options), start, watch)) {
        isKnown = true;
        const mustList = table.apply(response);
        yield response;
        if (!mustList) continue;
        for await (const row of this.iterate(this.stacks.listStackRows, request)) {
          if (table.add(row)) yield create(v1.WatchTableResponseSchema, { change: { case: "row", value: row } });
        }
        for (const value of table.endList()) {
          yield create(v1.WatchTableResponseSchema, { change: { case: "removedStackRowId", value } });
        }
      }
    } catch (error) {
      const isDeleted = error instanceof FolioError && error.code === "NOT_FOUND" && isKnown;
      if (!isDeleted) throw error;
    }
  }
}
