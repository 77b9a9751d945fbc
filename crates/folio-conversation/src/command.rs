//! What callers ask of a conversation, and what an approval answers.

use folio_history::event::{CallView, Event, RoundView};
use folio_history::journal::{Decision, Mention};
use folio_types::message::Message;
use folio_types::{CallId, Digest, DocumentId, RequestId, ThreadId, Timestamp, TurnId};

/// A user message, and how its turn is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatCommand {
    /// The profile; none: the thread's, or `document` for a new thread.
    pub profile: Option<String>,
    /// The documents of a new thread; for a thread that is there, empty or exactly its own.
    pub documents: Vec<DocumentId>,
    /// The thread; none: a new one, whose id follows from (organization, user, profile, documents, request id).
    pub thread: Option<ThreadId>,
    /// Whether the new thread is hidden and removed after 24 hours.
    pub ephemeral: bool,
    /// What was said before; only for a new ephemeral thread, at most [`folio_types::limits::HISTORY_MESSAGES`].
    pub history: Vec<Message>,
    /// The message, not empty, at most [`folio_types::limits::USER_TEXT_BYTES`].
    pub text: String,
    /// What it refers to, at most [`folio_types::limits::MENTIONS_MAX`].
    pub mentions: Vec<Mention>,
    /// The model; none: the thread's, else the default.
    pub model: Option<String>,
    /// Whether no call waits for approval.
    pub auto_approve: bool,
    /// Tools whose calls do not wait.
    pub auto_approved_tools: Vec<String>,
    /// What happens where a turn runs.
    pub if_busy: IfBusy,
    /// What happens where a turn waits for approval.
    pub if_pending: IfPending,
    /// Messages (user and final assistant ones) of the history that stay.
    pub truncate_to_message_count: Option<u32>,
    /// The client's id for the request: asked again, it joins, resumes or repeats its turn. None: nothing can repeat it.
    pub request_id: Option<RequestId>,
}

impl ChatCommand {
    /// A message with every option at its default.
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

/// What a message does where a turn of its thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfBusy {
    /// It is refused with `TURN_BUSY`.
    #[default]
    Reject,
    /// It waits in memory, at most [`folio_types::limits::QUEUE_PER_THREAD`] of them, else `QUEUE_FULL`. Not accepted
    /// before its `turn_started`; dropped when its caller leaves before.
    Enqueue,
    /// The running turn ends cancelled first.
    Interrupt,
}

/// What a message does where a turn of its thread waits for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfPending {
    /// It is refused with `TURN_PENDING`.
    #[default]
    Reject,
    /// The waiting turn ends superseded first.
    Supersede,
}

/// Decisions on calls of a waiting round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveCommand {
    /// The turn.
    pub turn: TurnId,
    /// The round that is meant. Needed where there are no decisions; else it follows from them.
    pub round: Option<u32>,
    /// The decisions, each call at most once, all of one round.
    pub decisions: Vec<CallDecision>,
    /// Whether every call that needs a decision and has none is rejected.
    pub reject_undecided: bool,
    /// Whether the server goes on through rounds that need no approval.
    pub continue_auto_approved: bool,
}

/// A decision on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDecision {
    /// The call.
    pub call: CallId,
    /// What is decided.
    pub decision: Decision,
    /// The digest of the arguments that the person saw; it must match.
    pub digest: Option<Digest>,
}

/// What an approval came to. The same decisions again give the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one for a request, handed on at once")]
pub enum ApproveAnswer {
    /// Recorded; nothing runs before the rest is decided.
    StillAwaiting {
        /// The turn.
        turn: TurnId,
        /// The round.
        round: u32,
        /// The calls that still need a decision.
        missing: Vec<CallView>,
        /// From when no decision counts.
        expires_at: Timestamp,
    },
    /// The round was carried out, and this is where the turn stands now.
    Reached {
        /// The closing event: `awaiting_approval`, `completed`, `failed`, `cancelled`, `expired` or `superseded`.
        closing: Event,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
}

/// A thread that is to be made without a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewThreadCommand {
    /// Its profile; none: `document`.
    pub profile: Option<String>,
    /// Its documents.
    pub documents: Vec<DocumentId>,
    /// Its title; empty: taken from the first message.
    pub title: String,
    /// Its model.
    pub model: Option<String>,
    /// The client's id for the request.
    pub request_id: Option<RequestId>,
}

/// A copy of a thread up to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkCommand {
    /// The thread that is copied.
    pub thread: ThreadId,
    /// Messages (user and final assistant ones) that are copied; none: all of its ended turns.
    pub message_count: Option<u32>,
    /// The title; none: the thread's own.
    pub title: Option<String>,
    /// The client's id for the request.
    pub request_id: Option<RequestId>,
}
