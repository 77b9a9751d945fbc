//! Validated requests that change a conversation.
//!
//! The gRPC service that receives a request parses and validates the request into one of these types
//! (`folio_proto::{chat, approve, thread}`), so fields are within the bounds of [`folio_types::limits`]. The actor of
//! the thread checks the rest: profile, documents and pending calls.

use folio_types::message::Message;
use folio_types::{CallId, Digest, DocumentId, MessageImageId, RequestId, ThreadId, Timestamp, TurnId};
use serde::Serialize;
use serde_json::Value;

use crate::event::{CallView, Event, RoundView};
use crate::journal::{Decision, Mention};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ChatCommand {
    /// None: the thread's profile, or `document` for a new thread.
    pub profile: Option<String>,
    /// Without duplicates. For an existing thread: empty, or exactly the thread's documents.
    pub documents: Vec<DocumentId>,
    /// None: a new thread, whose id is derived from organization, user, profile, documents and request id.
    pub thread: Option<ThreadId>,
    /// True if the new thread is hidden and removed after 24 hours. False for an existing thread.
    pub ephemeral: bool,
    /// The messages with which a new ephemeral thread starts. Empty for other chats.
    pub history: Vec<Message>,
    /// The message of the user, which is not blank.
    pub text: String,
    /// Referenced schemas, prompts and tags.
    pub mentions: Vec<Mention>,
    /// None: the thread's model, or the default.
    pub model: Option<String>,
    /// If true, tool calls run without approval unless the organization's policy requires one.
    pub auto_approve: bool,
    /// Tools whose calls run without approval unless the organization's policy requires one.
    pub auto_approved_tools: Vec<String>,
    pub if_busy: IfBusy,
    pub if_pending: IfPending,
    /// Number of user and final assistant messages to keep; later ones are dropped. None: all. Always None for a new
    /// thread.
    pub truncate_to_message_count: Option<u32>,
    /// Credits that the turn may use, within [`CREDIT_BUDGET_MAX`](folio_types::budget::CREDIT_BUDGET_MAX). None: no limit
    /// but that of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// The call that the turn runs instead of model calls. None: the turn calls the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct_call: Option<DirectCall>,
    /// Idempotency key: a repeated request joins, resumes or repeats its turn. None: the request is not idempotent.
    pub request_id: Option<RequestId>,
    /// The images of the message, without duplicates, at most
    /// [`MESSAGE_IMAGES_MAX`](folio_types::limits::MESSAGE_IMAGES_MAX). Empty with a direct call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImageId>,
}

/// A tool call that a client names. Its turn makes no model call: it pauses, runs the call and ends like a round of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirectCall {
    /// Name of a tool of the profile.
    pub tool: String,
    /// A JSON object.
    pub arguments: Value,
    /// Without a thread: the thread among those of the user, the profile and the documents in which direct calls run, from 1
    /// to [`DIRECT_CALL_THREADS_MAX`](folio_types::limits::DIRECT_CALL_THREADS_MAX). In a thread: 1.
    pub thread_number: u32,
}

impl ChatCommand {
    /// Returns a chat with this text in a new thread, with the default of every option.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Behaviour of a chat while a turn of its thread is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IfBusy {
    /// The chat is refused with `TURN_BUSY`.
    #[default]
    Reject,
    /// The chat waits in memory behind the running turn. If [`folio_types::limits::QUEUE_PER_THREAD`] chats wait, it is
    /// refused with `QUEUE_FULL`. It is accepted when its `turn_started` is sent, and dropped if its caller disconnects
    /// before.
    Enqueue,
    /// The running turn is cancelled first.
    Interrupt,
}

/// Behaviour of a chat while a turn of its thread waits for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IfPending {
    /// The chat is refused with `TURN_PENDING`.
    #[default]
    Reject,
    /// The pending turn ends as superseded first.
    Supersede,
}

/// Decisions on calls of a pending round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApproveCommand {
    pub turn: TurnId,
    /// None: the round of the decisions. Required if there are no decisions.
    pub round: Option<u32>,
    /// At most one per call, all of one round of `turn`.
    pub decisions: Vec<CallDecision>,
    /// If true, undecided calls that need a decision are rejected.
    pub reject_undecided: bool,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallDecision {
    pub call: CallId,
    pub decision: Decision,
    /// Digest of the arguments that the approver saw; it must match the call's. None: not checked.
    pub digest: Option<Digest>,
}

/// Answer to an approval. The same decisions always get the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one value per request, moved at once")]
pub enum ApproveAnswer {
    /// The decisions are recorded; no call runs before all are decided. `missing`: calls that still need a decision.
    /// Decisions are refused from `expires_at` on.
    StillAwaiting { turn: TurnId, round: u32, missing: Vec<CallView>, expires_at: Timestamp },
    /// The round was executed. `closing` reports the state that the turn reached: `awaiting_approval`, `completed`,
    /// `failed`, `cancelled`, `expired` or `superseded`. `round`: the decided round with its results.
    Reached { closing: Event, round: Box<RoundView> },
}

/// Creates a thread without a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CreateThreadCommand {
    /// None: `document`.
    pub profile: Option<String>,
    /// Without duplicates.
    pub documents: Vec<DocumentId>,
    /// Empty: derived from the first message.
    pub title: String,
    /// None: the default model.
    pub model: Option<String>,
    /// Idempotency key. None: the request is not idempotent.
    pub request_id: Option<RequestId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenameThreadCommand {
    pub thread: ThreadId,
    /// The new title, which is not empty.
    pub title: String,
    /// Idempotency key. None: the request is not idempotent.
    pub request_id: Option<RequestId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeleteThreadCommand {
    pub thread: ThreadId,
    /// Idempotency key. None: the request is not idempotent.
    pub request_id: Option<RequestId>,
}

/// Copies the first messages of a thread into a new thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForkThreadCommand {
    /// Source of the copy.
    pub thread: ThreadId,
    /// Number of user and final assistant messages to copy. None: all messages of ended turns.
    pub message_count: Option<u32>,
    /// None: the title of the source.
    pub title: Option<String>,
    /// Idempotency key. None: the request is not idempotent.
    pub request_id: Option<RequestId>,
}
