//! Bounds that hold everywhere. What an operator may set has its default here and its setting in the component's options.

use std::time::Duration;

/// Model calls of one turn, those after approvals counted.
pub const ROUNDS_MAX: u32 = 10;
/// Tool calls of one round; what a model asks for beyond gets an error as its result.
pub const CALLS_PER_ROUND_MAX: usize = 32;
/// How long a pause waits for its approvals by default.
pub const APPROVAL_TTL_DEFAULT: Duration = Duration::from_secs(300);
/// How long a pause may wait at most. Rows of the index of open turns live longer.
pub const APPROVAL_TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Days for which an organization may keep threads that nothing happens in.
pub const THREAD_RETENTION_DAYS_MAX: u32 = 3_650;
/// How long an ephemeral thread lives, a deleted document's thread stays, a failed turn can be resumed.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Requests that wait behind a running turn of one thread.
pub const QUEUE_PER_THREAD: usize = 8;
/// Messages before the current turn that a model is sent.
pub const WINDOW_MESSAGES: usize = 20;
/// Characters of the document's text in the system message.
pub const EXCERPT_CHARS: usize = 8_000;
/// Characters of one resolved mention in the system message.
pub const MENTION_CHARS: usize = 16_000;
/// Mentions of one message.
pub const MENTIONS_MAX: usize = 20;
/// Characters of the working extraction in the system message.
pub const WORKING_EXTRACTION_CHARS: usize = 32_000;
/// Characters of a title that is taken from the first message.
pub const TITLE_CHARS: usize = 50;
/// Bytes of a user message.
pub const USER_TEXT_BYTES: usize = 128 * 1024;
/// Bytes of a tool call's arguments.
pub const ARGUMENTS_BYTES: usize = 128 * 1024;
/// Bytes of a tool result; a longer one is cut visibly.
pub const TOOL_RESULT_BYTES: usize = 64 * 1024;
/// Bytes of a model's text or thinking in one round; more is an error of the model.
pub const MODEL_TEXT_BYTES: usize = 96 * 1024;
/// Bytes of one journal entry.
pub const ENTRY_BYTES: usize = 256 * 1024;
/// Bytes of one append.
pub const APPEND_BYTES: usize = 1024 * 1024;
/// Turns of one thread.
pub const TURNS_PER_THREAD: u32 = 2_000;
/// Bytes of one thread's journal.
pub const THREAD_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes that a fork copies at most: half of a thread, so that it has room to go on.
pub const FORK_BYTES: usize = 16 * 1024 * 1024;
/// User messages that a fork copies at most.
pub const FORK_TURNS: usize = 1_000;
/// Messages that an ephemeral thread may bring.
pub const HISTORY_MESSAGES: usize = 200;
/// Maximum size in bytes of all messages that an ephemeral thread starts with.
pub const HISTORY_BYTES: usize = 1024 * 1024;
/// Maximum size in bytes of one of these messages: half of a journal entry.
pub const HISTORY_MESSAGE_BYTES: usize = ENTRY_BYTES / 2;
/// Maximum length in bytes of a tool call's id in such a message.
pub const CALL_ID_BYTES: usize = 128;
/// Maximum number of tools that a chat names as auto-approved.
pub const AUTO_APPROVED_TOOLS_MAX: usize = 100;
/// Maximum number of decisions in one request: one for each call of a round.
pub const DECISIONS_MAX: usize = CALLS_PER_ROUND_MAX;
/// Maximum length in characters of the reason of a rejection.
pub const REJECTION_REASON_CHARS: usize = 2_000;
/// Documents of one thread.
pub const DOCUMENTS_PER_THREAD: usize = 100;
/// Items of a page that is asked for without a size.
pub const PAGE_SIZE_DEFAULT: u32 = 50;
/// Items of a page at most; a larger size is cut to it.
pub const PAGE_SIZE_MAX: u32 = 1_000;
/// Characters of a name.
pub const NAME_CHARS: usize = 200;
/// Bytes of a schema.
pub const SCHEMA_BYTES: usize = 128 * 1024;
/// Nesting of any JSON that comes in.
pub const JSON_DEPTH: usize = 64;
/// Bytes of a prompt's content.
pub const PROMPT_BYTES: usize = 64 * 1024;
/// Tags of a document or prompt.
pub const TAGS_MAX: usize = 50;
/// Entries of a document's metadata.
pub const METADATA_MAX: usize = 50;
/// Bytes of a metadata value.
pub const METADATA_VALUE_BYTES: usize = 1_024;
/// Bytes of an extraction: an entry of a journal holds it beside a message.
pub const EXTRACTION_BYTES: usize = 96 * 1024;
/// Bytes of a document by default.
pub const DOCUMENT_BYTES: u64 = 50 * 1024 * 1024;
/// Pages of a document by default.
pub const DOCUMENT_PAGES: u32 = 2_000;
