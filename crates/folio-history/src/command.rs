//! Requests that change a conversation, as the actor of the thread runs them.
//!
//! The edge parses and validates a request once into one of these types (`folio_proto::{chat, approve, thread}` for
//! gRPC). Their fields are within the bounds of [`folio_types::limits`]; what depends on the thread (its profile, its
//! documents, its pending calls) is checked by the actor.

use folio_types::message::Message;
use folio_types::{CallId, Digest, DocumentId, RequestId, ThreadId, Timestamp, TurnId};
use serde::Serialize;

use crate::event::{CallView, Event, RoundView};
use crate::journal::{Decision, Mention};

/// A user message and the options of its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChatCommand {
    /// The profile. None: the thread's profile, or `document` for a new thread.
    pub profile: Option<String>,
    /// The documents of a new thread, without duplicates. For an existing thread: empty, or exactly the thread's
    /// documents.
    pub documents: Vec<DocumentId>,
    /// The thread. None: a new thread, whose id is derived from organization, user, profile, documents and request id.
    pub thread: Option<ThreadId>,
    /// True if the new thread is hidden and removed after 24 hours. False for an existing thread.
    pub ephemeral: bool,
    /// Messages that precede a new ephemeral thread. Empty otherwise.
    pub history: Vec<Message>,
    /// The message; not blank.
    pub text: String,
    /// References to schemas, prompts and tags.
    pub mentions: Vec<Mention>,
    /// The model. None: the thread's model, or the default.
    pub model: Option<String>,
    /// If true, calls run without approval unless the organization's policy requires one.
    pub auto_approve: bool,
    /// Tools whose calls run without approval unless the organization's policy requires one.
    pub auto_approved_tools: Vec<String>,
    /// Behaviour if a turn of the thread is running.
    pub if_busy: IfBusy,
    /// Behaviour if a turn of the thread is waiting for approval.
    pub if_pending: IfPending,
    /// Number of user and final assistant messages to keep; later ones are dropped. None: all. None for a new thread.
    pub truncate_to_message_count: Option<u32>,
    /// The client's id for the request. A repeated request joins, resumes or repeats its turn. None: not repeatable.
    pub request_id: Option<RequestId>,
}

impl ChatCommand {
    /// Returns a message with every option at its default.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            profile: None,
            documents: Vec::new(),
            thread: None,
            ephemeral: false,
            history: Vec::new(),
            text: text.into(),
            mentions: Vec::new(),
            model: None,
            auto_approve: false,
            auto_approved_tools: Vec::new(),
            if_busy: IfBusy::default(),
            if_pending: IfPending::default(),
            truncate_to_message_count: None,
            request_id: None,
        }
    }
}

/// Behaviour of a chat if a turn of its thread is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IfBusy {
    /// The chat is refused with `TURN_BUSY`.
    #[default]
    Reject,
    /// The chat waits in memory behind the running turn, at most [`folio_types::limits::QUEUE_PER_THREAD`] of them; a
    /// further one is refused with `QUEUE_FULL`. It is accepted with its `turn_started`, and dropped if its caller
    /// disconnects before.
    Enqueue,
    /// The running turn is cancelled first.
    Interrupt,
}

/// Behaviour of a chat if a turn of its thread is waiting for approval.
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
    /// Id of the turn.
    pub turn: TurnId,
    /// The round. None: the round of the decisions. Required if there are no decisions.
    pub round: Option<u32>,
    /// The decisions: at most one per call, all of one round of `turn`.
    pub decisions: Vec<CallDecision>,
    /// If true, undecided calls that need a decision are rejected.
    pub reject_undecided: bool,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

/// A decision on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallDecision {
    /// Id of the call.
    pub call: CallId,
    /// The decision.
    pub decision: Decision,
    /// Digest of the arguments that were decided on; it must match the call's. None: not checked.
    pub digest: Option<Digest>,
}

/// The answer to an approval. The same decisions get the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one for a request, handed on at once")]
pub enum ApproveAnswer {
    /// Recorded; nothing runs before the rest is decided.
    StillAwaiting {
        /// Id of the turn.
        turn: TurnId,
        /// Number of the round, from 1.
        round: u32,
        /// The calls that need a decision and have none.
        missing: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// The round was executed; the turn has reached this state.
    Reached {
        /// The closing event: `awaiting_approval`, `completed`, `failed`, `cancelled`, `expired` or `superseded`.
        closing: Event,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
}

/// Creates a thread without a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CreateThreadCommand {
    /// The profile. None: `document`.
    pub profile: Option<String>,
    /// The documents, without duplicates.
    pub documents: Vec<DocumentId>,
    /// The title. Empty: derived from the first message.
    pub title: String,
    /// The model. None: the default.
    pub model: Option<String>,
    /// The client's id for the request. None: not repeatable.
    pub request_id: Option<RequestId>,
}

/// Renames a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenameThreadCommand {
    /// Id of the thread.
    pub thread: ThreadId,
    /// The title, not empty.
    pub title: String,
    /// The client's id for the request. None: not repeatable.
    pub request_id: Option<RequestId>,
}

/// Deletes a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeleteThreadCommand {
    /// Id of the thread.
    pub thread: ThreadId,
    /// The client's id for the request. None: not repeatable.
    pub request_id: Option<RequestId>,
}

/// Copies a thread up to a message into a new thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForkThreadCommand {
    /// The thread to copy.
    pub thread: ThreadId,
    /// Number of user and final assistant messages to copy. None: all messages of ended turns.
    pub message_count: Option<u32>,
    /// The title. None: the title of the copied thread.
    pub title: Option<String>,
    /// The client's id for the request. None: not repeatable.
    pub request_id: Option<RequestId>,
}
