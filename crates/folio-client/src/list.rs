//! Lists, whose pages are read as their items are read.

use folio_proto::v1;
use futures::stream::BoxStream;

use crate::connection::Client;
use crate::error::Result;

macro_rules! lists {
    ($($name:ident: $service:ident, $request:ident, $items:ident: $item:ident;)+) => {
        /// The items of all pages of each list.
        impl Client {
            $(pub fn $name(&self, mut request: v1::$request) -> BoxStream<'static, Result<v1::$item>> {
                let client = self.clone();
                Box::pin(async_stream::try_stream! {
                    loop {
                        let page = client.repeat(|| {
                            let (mut service, request) = (client.$service(), request.clone());
                            async move { service.$name(request).await }
                        });
                        let page = page.await?;
                        for item in page.$items {
                            yield item;
                        }
                        if page.next_page_token.is_empty() {
                            break;
                        }
                        request.page_token = page.next_page_token;
                        // The token continues after the skipped items.
                        request.skip = 0;
                    }
                })
            })+
        }
    };
}

lists! {
    list_account_organizations: accounts, ListAccountOrganizationsRequest, organizations: AccountOrganization;
    list_account_sessions: accounts, ListAccountSessionsRequest, sessions: AccountSession;
    list_account_tokens: accounts, ListAccountTokensRequest, tokens: Token;
    list_audit_entries: audits, ListAuditEntriesRequest, entries: AuditEntry;
    list_collection_documents: collections, ListCollectionDocumentsRequest, documents: Document;
    list_collections: collections, ListCollectionsRequest, collections: Collection;
    list_dictionary_entries: dictionary, ListDictionaryEntriesRequest, dictionary_entries: DictionaryEntry;
    list_dictionary_questions: dictionary, ListDictionaryQuestionsRequest, dictionary_questions: DictionaryQuestion;
    list_document_links: links, ListDocumentLinksRequest, links: ResolvedLink;
    list_documents: documents, ListDocumentsRequest, documents: Document;
    list_extractions: extractions, ListExtractionsRequest, extractions: Extraction;
    list_field_history: extractions, ListFieldHistoryRequest, changes: FieldChange;
    list_images: documents, ListImagesRequest, images: DocumentImage;
    list_inbox_items: inbox, ListInboxItemsRequest, items: InboxItem;
    list_job_items: jobs, ListJobItemsRequest, items: JobItem;
    list_jobs: jobs, ListJobsRequest, jobs: Job;
    list_linking_documents: links, ListLinkingDocumentsRequest, links: IncomingLink;
    list_links: documents, ListLinksRequest, links: DocumentLink;
    list_mcp_servers: mcp_servers, ListMcpServersRequest, mcp_servers: McpServer;
    list_members: organizations, ListMembersRequest, members: Member;
    list_missing_links: links, ListMissingLinksRequest, links: MissingLink;
    list_models: models, ListModelsRequest, models: Model;
    list_organizations: organizations, ListOrganizationsRequest, organizations: Organization;
    list_pending_approvals: conversations, ListPendingApprovalsRequest, pending_approvals: PendingApproval;
    list_profiles: conversations, ListProfilesRequest, profiles: Profile;
    list_prompt_revisions: prompts, ListPromptRevisionsRequest, prompt_revisions: PromptRevision;
    list_prompts: prompts, ListPromptsRequest, prompts: Prompt;
    list_proposals: proposals, ListProposalsRequest, proposals: Proposal;
    list_providers: providers, ListProvidersRequest, providers: Provider;
    list_schema_revisions: schemas, ListSchemaRevisionsRequest, schema_revisions: SchemaRevision;
    list_schemas: schemas, ListSchemasRequest, schemas: Schema;
    list_stack_rows: stacks, ListStackRowsRequest, rows: StackRow;
    list_stacks: stacks, ListStacksRequest, stacks: Stack;
    list_tags: tags, ListTagsRequest, tags: Tag;
    list_threads: threads, ListThreadsRequest, threads: Thread;
    list_tokens: tokens, ListTokensRequest, tokens: Token;
    list_tools: conversations, ListToolsRequest, tools: Tool;
    list_users: users, ListUsersRequest, users: User;
    list_webhook_deliveries: webhooks, ListWebhookDeliveriesRequest, webhook_deliveries: WebhookDelivery;
    list_webhook_endpoints: webhooks, ListWebhookEndpointsRequest, webhook_endpoints: WebhookEndpoint;
}
