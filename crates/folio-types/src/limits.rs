//! Fixed bounds, and defaults of bounds that operators can change in the options of a component.

use std::time::Duration;

/// Maximum model calls of a turn that a profile may permit, including those after approvals.
// proto: Profile.model_calls_max "at most {}."
pub const ROUNDS_MAX: u32 = 100;
/// Size of a turn's rounds, in bytes, from which the turn ends like a turn with its maximum number of rounds. With the
/// round that reaches it, a turn fits into a message of 32 MiB.
pub const TURN_BYTES: usize = 24 * 1024 * 1024;
/// Maximum tool calls of a round. Further calls get an error as their result.
pub const CALLS_PER_ROUND_MAX: usize = 32;
/// Default time that a pause waits for approvals.
pub const APPROVAL_TTL_DEFAULT: Duration = Duration::from_secs(300);
/// Maximum time that a pause may wait. Rows of the index of open turns expire later.
// proto: Policy.approval_ttl_seconds "at most {}"
// proto: Policy.approval_ttl_seconds "{} days)"
pub const APPROVAL_TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum days of thread retention that an organization may set.
// proto: Organization.thread_retention_days "0 to {}."
pub const THREAD_RETENTION_DAYS_MAX: u32 = 3_650;
/// Lifetime of an ephemeral thread, of a deleted document's thread, and of the right to resume a failed turn.
// proto: ConversationService.Approve "at least {} h"
// proto: ConversationService.ResumeTurn "for {} h"
// proto: ChatRequest.ephemeral "after {} h"
// proto: Thread.expire_time "{} h after"
// proto: DocumentService.DeleteDocument "after {} hours"
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum documents with the tags of a filter of extractions.
// proto: ListExtractionsRequest.filter "at most {} documents"
pub const TAGGED_DOCUMENTS_MAX: usize = 10_000;
/// Maximum resources that refer to the resource of a filter, such as prompts to a schema.
// proto: ListPromptsRequest.filter "more than {} prompts"
pub const REFERRERS_MAX: usize = 1_000;
/// Maximum requests that are queued behind a running turn of a thread.
// proto: IfBusy.IF_BUSY_ENQUEUE "at most {} per thread"
pub const QUEUE_PER_THREAD: usize = 8;
/// Maximum messages before the current turn that are sent to a model.
pub const WINDOW_MESSAGES: usize = 20;
/// Number of messages that leave the window before they are summarized.
pub const SUMMARY_MESSAGES_MIN: u32 = 10;
/// Maximum length of an expression for the calculator, in characters.
pub const EXPRESSION_CHARS: usize = 1_000;
/// Maximum size of a summary of earlier messages, in bytes.
pub const SUMMARY_BYTES: usize = 8 * 1024;
/// Maximum length of the document's text in the system message, in characters.
pub const EXCERPT_CHARS: usize = 8_000;
/// Maximum length of a resolved mention in the system message, in characters.
pub const MENTION_CHARS: usize = 16_000;
/// Maximum mentions of a message.
// proto: ChatRequest.mentions "at most {} mentions"
pub const MENTIONS_MAX: usize = 20;
/// Maximum length of the working extraction in the system message, in characters.
pub const WORKING_EXTRACTION_CHARS: usize = 32_000;
/// Maximum size of the state of a profile, as JSON in bytes.
// proto: WorkingState.profile_state_json "at most {} KiB"
pub const PROFILE_STATE_BYTES: usize = 32 * 1024;
/// Maximum length of a title that is derived from the first message, in characters.
// proto: Thread.title "the first {} characters"
pub const TITLE_CHARS: usize = 50;
/// Maximum length in bytes of the password of a protected PDF: that of the PDF standard.
// proto: DocumentDescription.password "at most {} bytes"
pub const DOCUMENT_PASSWORD_BYTES: usize = 127;
/// Maximum size of a user message, in bytes.
// proto: ChatRequest.text "at most {} KiB"
pub const USER_TEXT_BYTES: usize = 128 * 1024;
/// Maximum images of a user message.
// proto: ChatRequest.image_ids "at most {} images"
pub const MESSAGE_IMAGES_MAX: usize = 4;
/// Maximum size of an image that a user uploads for messages, in bytes.
// proto: UploadImageRequest.data "at most {} MiB"
pub const MESSAGE_IMAGE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum size of an image that models receive, in bytes, before its encoding as text.
// proto: MessageImage.size_bytes "at most {} MiB"
pub const MODEL_IMAGE_BYTES: usize = 2 * 1024 * 1024;
/// Maximum width and height of an image that models receive, in pixels. A larger image is scaled down.
// proto: MessageImage.width "at most {} pixels"
// proto: MessageImage.height "at most {} pixels"
pub const MODEL_IMAGE_PIXELS: u32 = 2_048;
/// Maximum threads that contain the same image of a message.
// proto: ThreadService.ForkThread "in {} threads"
pub const IMAGE_THREADS_MAX: usize = 1_000;
/// Maximum number of threads of a user, a profile and documents in which direct calls run.
// proto: DirectCall.thread_number "1 to {}."
pub const DIRECT_CALL_THREADS_MAX: u32 = 16;
/// Maximum size of a tool call's arguments, in bytes.
// proto: DirectCall.arguments_json "at most {} KiB"
// proto: ApprovedEdited.arguments_json "at most {} KiB"
// proto: PreviewToolCallRequest.arguments_json "at most {} KiB"
pub const ARGUMENTS_BYTES: usize = 128 * 1024;
/// Maximum size of a tool result, in bytes. A longer result is cut visibly.
pub const TOOL_RESULT_BYTES: usize = 64 * 1024;
/// Maximum size of a model's text or thinking in a round, in bytes. Exceeding it is an error of the model.
pub const MODEL_TEXT_BYTES: usize = 96 * 1024;
/// Maximum size of an answer that must be JSON, in bytes.
pub const JSON_ANSWER_BYTES: usize = 64 * 1024;
/// Maximum size of the JSON Schema of an answer, in bytes. Each acceptance of a turn stores it.
pub const ANSWER_SCHEMA_BYTES: usize = 16 * 1024;
/// Maximum size of a journal entry, in bytes.
pub const ENTRY_BYTES: usize = 256 * 1024;
/// Maximum size of an append, in bytes.
pub const APPEND_BYTES: usize = 1024 * 1024;
/// Maximum turns of a thread.
// proto: ConversationService.Chat "at most {} turns"
pub const TURNS_PER_THREAD: u32 = 2_000;
/// Maximum size of a thread's journal, in bytes.
// proto: ConversationService.Chat "{} MiB"
pub const THREAD_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum bytes that a fork copies: half of a thread, so that the fork can grow.
// proto: ThreadService.ForkThread "exceed {} MiB"
pub const FORK_BYTES: usize = 16 * 1024 * 1024;
/// Maximum user messages that a fork copies.
// proto: ThreadService.ForkThread "{} user messages"
pub const FORK_TURNS: usize = 1_000;
/// Maximum messages in a request for an ephemeral thread or a completion.
// proto: ChatRequest.history "at most {} messages"
// proto: CompletionParameters.messages "at most {} messages"
pub const HISTORY_MESSAGES: usize = 200;
/// Maximum size in bytes of all messages that an ephemeral thread starts with, or that a completion has.
// proto: ChatRequest.history "{} MiB together"
// proto: CompletionParameters.messages "{} MiB together"
pub const HISTORY_BYTES: usize = 1024 * 1024;
/// Maximum size in bytes of one message that an ephemeral thread starts with: half of a journal entry.
// proto: ChatRequest.history "at most {} KiB"
pub const HISTORY_MESSAGE_BYTES: usize = ENTRY_BYTES / 2;
/// Maximum length in bytes of a tool call's id in a message that an ephemeral thread starts with.
// proto: ToolMessage.call_id "1 to {} characters"
// proto: MessageCall.id "1 to {} characters"
pub const CALL_ID_BYTES: usize = 128;
/// Maximum number of tools that a chat names as auto-approved.
// proto: ChatRequest.auto_approved_tools "at most {} tools"
pub const AUTO_APPROVED_TOOLS_MAX: usize = 100;
/// Maximum number of decisions in one request: one for each call of a round.
// proto: ApproveRequest.decisions "at most {} decisions"
pub const DECISIONS_MAX: usize = CALLS_PER_ROUND_MAX;
/// Maximum length in characters of the reason of a rejection.
// proto: Rejected.reason "at most {} characters"
pub const REJECTION_REASON_CHARS: usize = 2_000;
/// Maximum documents of a thread.
// proto: *.document_ids "at most {}."
pub const DOCUMENTS_PER_THREAD: usize = 100;
// proto: *.page_size "Default: {}."
pub const PAGE_SIZE_DEFAULT: u32 = 50;
/// Maximum page size. A larger size is reduced to it.
// proto: *.page_size "per page, at most {}."
pub const PAGE_SIZE_MAX: u32 = 1_000;
/// Maximum length of a name, in characters.
// proto: *.name "1 to {} characters"
// proto: AcceptProposalRequest.tag_name "1 to {} characters"
// proto: *.metadata "keys of 1 to {} characters"
// proto: *.note "at most {} characters"
// proto: *.title "at most {} characters"
// proto: RenameThreadRequest.title "1 to {} characters"
// proto: CreateOrganizationRequest.admin_name "1 to {} characters"
pub const NAME_CHARS: usize = 200;
/// Maximum length of a text that a list is searched for, in characters.
// proto: *.filter "1 to {} characters"
// proto: Grid.name_search "1 to {} characters"
// proto: GridFilter.values "1 to {} characters"
// proto: docs/api.md "1 to {} characters of a text"
pub const SEARCH_CHARS: usize = 200;
/// Maximum size of a schema, in bytes.
// proto: *.response_format_json "at most {} KiB"
pub const SCHEMA_BYTES: usize = 128 * 1024;
/// Maximum nesting of any received JSON.
pub const JSON_DEPTH: usize = 64;
/// Maximum size of a prompt's content, in bytes.
// proto: Prompt.content "at most {} KiB"
pub const PROMPT_BYTES: usize = 64 * 1024;
/// Maximum tags of a document or prompt.
// proto: *.tag_ids "at most {}."
// proto: ListDocumentsRequest.filter "at most {} times"
// proto: ListPromptsRequest.filter "At most {} tags"
// proto: ListExtractionsRequest.filter "At most {} tags"
pub const TAGS_MAX: usize = 50;
/// Maximum stored revisions of a prompt or schema.
// proto: PromptService.UpdatePrompt "at most {} revisions"
// proto: SchemaService.UpdateSchema "at most {} revisions"
pub const REVISIONS_MAX: usize = 1_000;
/// Maximum entries of a document's metadata.
// proto: *.metadata "at most {} entries"
pub const METADATA_MAX: usize = 50;
/// Maximum size of a metadata value, in bytes.
// proto: *.metadata "at most {} KiB"
pub const METADATA_VALUE_BYTES: usize = 1_024;
/// Maximum number of searchable characters in the values of a document's metadata.
// proto: Document.partly_searchable_keys "more than {} characters"
pub const METADATA_SEARCHABLE_CHARS: usize = 1_000;
/// Maximum size of an extraction, in bytes. It must fit into a journal entry together with a message.
// proto: *.data_json "at most {} KiB"
// proto: UpdateExtractionFieldRequest.value_json "at most {} KiB"
// proto: ReviewExtractionFieldRequest.value_json "at most {} KiB"
pub const EXTRACTION_BYTES: usize = 96 * 1024;
/// Default maximum size of a document, in bytes.
// proto: DocumentService.UploadDocument "at most {} MiB"
pub const DOCUMENT_BYTES: u64 = 50 * 1024 * 1024;
/// Default maximum pages of a document.
pub const DOCUMENT_PAGES: u32 = 2_000;
/// Maximum documents that are made of one uploaded mail or archive, with those of the mails and archives in it.
// proto: Document.part "at most {} documents"
pub const PARTS_MAX: u32 = 500;
/// Maximum size in bytes of the documents that are made of one uploaded mail or archive, together.
// proto: Document.part "{} MiB together"
pub const PARTS_BYTES: u64 = 512 * 1024 * 1024;
/// Maximum nesting of mails and archives.
// proto: Document.part "{} levels"
pub const PART_DEPTH_MAX: u32 = 4;
/// Maximum length of the path of a part in its mail or archive, in characters.
// proto: DocumentPart.path "at most {} characters"
pub const PART_PATH_CHARS: usize = 500;
/// Maximum number of refused parts that a document records.
// proto: Document.refused_parts "at most {}."
pub const REFUSED_PARTS_MAX: usize = 100;
/// Maximum length of the reason of a refused part, in characters.
// proto: RefusedPart.reason "at most {} characters"
pub const REFUSED_PART_CHARS: usize = 200;
/// Maximum parts into which a request splits a document.
// proto: SplitDocumentRequest.parts "2 to {} parts"
// proto: ProposeSplitResponse.parts "at most {}."
pub const SPLIT_PARTS_MAX: usize = 200;
/// Maximum items of a job.
// proto: RunExtractionsRequest.document_filter "{} documents"
// proto: StartIngestionRequest.document_filter "{} documents"
pub const JOB_ITEMS_MAX: usize = 100_000;
/// Items of a page of a job. The header of a job contains one page.
// proto: Job.items "at most {} items"
pub const JOB_PAGE_ITEMS: usize = 100;
/// Maximum documents that a request names as the items of a job.
// proto: RunExtractionsRequest.document_ids "1 to {} different"
// proto: StartIngestionRequest.document_ids "1 to {} different"
pub const JOB_DOCUMENT_IDS_MAX: usize = 10_000;
/// Maximum number of documents that the response to a change of a prompt names, and on which the change may run the prompt.
// proto: Organization.tag_batch_documents "0 to {}."
// proto: TagRunPlan.document_ids "at most {}."
pub const TAG_RUN_DOCUMENTS_MAX: u32 = 1_000;
/// Maximum length of the subject of a job's item, in bytes.
pub const JOB_SUBJECT_BYTES: usize = 200;
/// Maximum size of a job's input, in bytes.
pub const JOB_INPUT_BYTES: usize = 32 * 1024;
/// Maximum size of the outcome of a job's item, in bytes.
pub const JOB_OUTCOME_BYTES: usize = ENTRY_BYTES;
/// Maximum failed attempts of a job's item: errors that can be retried, and deaths of the owner.
pub const JOB_FAILURES_MAX: u32 = 5;
/// Maximum length of an error message that a job stores, in characters.
pub const JOB_MESSAGE_CHARS: usize = 500;
/// Maximum time for which a job waits for credit or limits without a completed item.
// proto: JobService "for {} hours"
// proto: WebhookEndpointService "for {} hours"
pub const JOB_BLOCKED_MAX: Duration = DAY;
/// Maximum time from the creation of a job to its end. Rows of the index of open jobs expire later.
pub const JOB_OPEN_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Time for which the record of an ended job is kept.
// proto: JobService "after {} days"
pub const JOB_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Time for which the record of an ended delivery to a webhook endpoint is kept.
// proto: WebhookEndpointService.ListWebhookDeliveries "for {} days"
pub const DELIVERY_RETENTION: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Time for which the record of an ended job that ingested one text, or maintained the index, is kept.
// proto: IngestionService "after {} days"
pub const INGESTION_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum tasks of a group: of one call of `run_tasks`.
// proto: TaskGroup.tasks "at most {}."
pub const TASKS_PER_GROUP_MAX: usize = 16;
/// Maximum number of turns between a child turn and its root turn, the child turn included.
// proto: TaskOrigin.depth "1 to {}."
pub const TASK_DEPTH_MAX: u32 = 3;
/// Maximum child turns of a root turn, including those of its child turns.
// proto: TaskGroup.tasks "at most {} child turns"
pub const TASKS_PER_TURN_MAX: u32 = 64;
/// Maximum size of the summary of a child turn in the result of `run_tasks`, in bytes.
// proto: TaskGroup.tasks "at most {} KiB"
pub const TASK_SUMMARY_BYTES: usize = 16 * 1024;
/// Maximum size of the task of a delegated agent, in bytes.
pub const TASK_TEXT_BYTES: usize = 16 * 1024;
/// Maximum size of the context of a delegated agent, in bytes.
pub const TASK_CONTEXT_BYTES: usize = 32 * 1024;
/// Number of takeovers and resumptions after which a child turn whose node was lost does not continue. Each loss causes one of
/// both.
pub const TASK_RESUMES_MAX: u32 = 10;
/// Maximum time for which a turn waits for the child turns of a group. Rows of the index of open turns expire later.
// proto: none "bounds a wait"
pub const GROUP_OPEN_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Time for which the thread of a child turn is kept, as the log of its task. It exceeds [`GROUP_OPEN_MAX`].
// proto: Task.thread_id "for {} days"
pub const TASK_RETENTION: Duration = Duration::from_secs(31 * 24 * 60 * 60);
