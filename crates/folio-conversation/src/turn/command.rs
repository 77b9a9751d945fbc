//! Input of the turn machine.

use folio_history::command::{IfBusy, IfPending};
use folio_history::journal::{Access, CallStatus, Decision, Mention, TurnOptions, WorkingChange};
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_types::message::{FinishReason, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::{Digest, Error, RequestId, Role, UserId};
use serde_json::Value;

/// Identifies the request that an answer belongs to. The shell assigns it; a machine never reuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request, or the result of an effect. Requests carry a ticket and are answered once
/// ([`Effect::Answer`](super::Effect::Answer)). If the machine requests a reload, unanswered requests are given to the
/// next machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A chat request.
    Start(Box<Start>),
    /// An `Approve` request: decisions on calls of the pending round.
    Decide(Box<Decide>),
    /// A request to cancel the turn.
    Cancel {
        /// Ticket of the request.
        ticket: Ticket,
        /// Number of the turn in its thread.
        turn: u32,
    },
    /// A request to resume a turn that failed retriably.
    Resume {
        /// Ticket of the request.
        ticket: Ticket,
        /// Number of the turn in its thread.
        turn: u32,
    },
    /// A request to rename the thread.
    Rename {
        /// Ticket of the request.
        ticket: Ticket,
        /// The new title.
        title: String,
        /// The request row, if the request has an id.
        request: Option<RequestRow>,
    },
    /// The sweep or a timer found the pause of this turn expired.
    Expire {
        /// Number of the turn in its thread.
        turn: u32,
    },
    /// The open turn has no live owner: take it over and advance it to its end or pause.
    TakeOver,
    /// The open turn has no live owner because the store permanently refused its entries: take it over and end it with
    /// this error.
    Unwritable {
        /// The error of the store.
        error: Error,
    },
    /// A delta of the model's answer.
    ModelDelta {
        /// Number of the round, from 1.
        round: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The delta.
        delta: Delta,
    },
    /// The model's complete answer.
    ModelReplied {
        /// Number of the round, from 1.
        round: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The answer, its calls checked against the tools.
        reply: Box<Reply>,
    },
    /// The model call failed after all retries, or was not permitted.
    ModelFailed {
        /// Number of the round, from 1.
        round: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The error of the call.
        error: Error,
        /// True if the same call may succeed later.
        retriable: bool,
        /// Usage of the failed call.
        usage: Usage,
    },
    /// The plan of a write call, or the reason why it cannot run.
    Planned {
        /// Number of the round, from 1.
        round: u32,
        /// Index of the call in the round, from 1.
        index: u32,
        /// The plan, or the error that the model receives.
        plan: Result<CallPlan, String>,
    },
    /// A call finished.
    ToolFinished {
        /// Number of the round, from 1.
        round: u32,
        /// Index of the call in the round, from 1.
        index: u32,
        /// The outcome.
        outcome: ToolOutcome,
    },
    /// A call's op row exists after closing.
    Closed {
        /// Number of the round, from 1.
        round: u32,
        /// Index of the call in the round, from 1.
        index: u32,
        /// Result of an op row that is done or in conflict. None: the op is aborted and never takes effect.
        result: Option<ToolResult>,
    },
    /// The append is committed.
    Appended {
        /// Batch id of the append.
        batch: u128,
        /// The header after the append.
        header: Box<ThreadHeader>,
    },
    /// The append was refused.
    Refused {
        /// Batch id of the append.
        batch: u128,
        /// The current header.
        header: Box<ThreadHeader>,
        /// The row of the request id, if the append inserts one and it exists.
        request: Option<RequestRow>,
    },
    /// The outcome of the append, or of inserting the open-turn row before it, is unknown.
    Unknown {
        /// Batch id of the append.
        batch: u128,
    },
    /// The result of looking an append up.
    LookedUp {
        /// Batch id of the append.
        batch: u128,
        /// True if the append is committed.
        is_committed: bool,
        /// The header, read after the batch.
        header: Box<ThreadHeader>,
    },
}

/// A chat request.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Ticket of the request.
    pub ticket: Ticket,
    /// The client's request id, or a generated one.
    pub request: RequestId,
    /// Digest of the request's content.
    pub digest: Digest,
    /// The requester.
    pub user: UserId,
    /// The user message.
    pub text: String,
    /// References in the message.
    pub mentions: Vec<Mention>,
    /// Options of the turn.
    pub options: TurnOptions,
    /// Number of user and final assistant messages to keep. None: all.
    pub truncate_to: Option<u32>,
    /// Action if a turn is running. `Enqueue` is refused like `Reject`; the shell then queues the chat.
    pub if_busy: IfBusy,
    /// Action if a turn waits for approval.
    pub if_pending: IfPending,
}

/// An `Approve` request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decide {
    /// Ticket of the request.
    pub ticket: Ticket,
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The round that `Approve` without decisions runs. None: the pending round.
    pub round: Option<u32>,
    /// The decisions. May be empty.
    pub decisions: Vec<RequestedDecision>,
    /// If true, undecided calls that need a decision are rejected.
    pub reject_undecided: bool,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
    /// The approver. The caller checked that this user has access to the thread or may approve in it.
    pub by: UserId,
    /// Role of the approver.
    pub role: Role,
}

/// A decision of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedDecision {
    /// Number of the round of the call.
    pub round: u32,
    /// Index of the call in the round, from 1.
    pub index: u32,
    /// The decision.
    pub decision: Decision,
    /// Digest of the arguments that the client saw; it must match the call's. None: not checked.
    pub digest: Option<Digest>,
    /// Error in edited arguments, from the shell's check against the tool's schema.
    pub problem: Option<String>,
}

/// A delta of a model's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Thinking.
    Thinking(String),
    /// Text.
    Text(String),
}

/// A complete answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The model that answered.
    pub model: String,
    /// Text of the answer.
    pub text: String,
    /// Thinking of the answer.
    pub thinking: Vec<ThinkingBlock>,
    /// The requested calls, in order.
    pub calls: Vec<CheckedCall>,
    /// Reason for the end of the answer.
    pub finish: FinishReason,
    /// Usage of the call.
    pub usage: Usage,
}

/// A call that a model requests, checked against the tools.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedCall {
    /// The provider's id of the call; some providers repeat ids.
    pub provider_id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments. An empty object if the model's were invalid.
    pub arguments: Value,
    /// Access of the tool. [`Access::ReadOnly`] for an unknown tool.
    pub access: Access,
    /// Reason why it cannot run: an unknown tool, or arguments that are not a JSON object or do not match the tool's
    /// schema.
    pub problem: Option<String>,
}

/// The plan of a write call, which becomes the call's intent.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// The aggregate that the call changes.
    pub target: Target,
    /// The version of the target that the deciding write expects.
    pub expected: Expected,
    /// Other values that the tool resolved.
    pub resolved: Value,
}

/// The outcome of running a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// The call ran. For a write: its op row is stored with this result, or no deciding write was sent and none will
    /// be.
    Done(ToolResult),
    /// The outcome is unknown, or the target changed: recovery decides.
    Unclear,
    /// The tool's first model call was refused (no credit, too many at once): no model was paid, no deciding write was
    /// sent and none will be.
    Refused(Error),
}

/// A result for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Outcome of the call.
    pub status: CallStatus,
    /// The result, as the model receives it.
    pub content: String,
    /// Changes of the working state.
    pub change: WorkingChange,
    /// Usage of the model calls of the tool.
    pub usage: Usage,
}

impl Command {
    /// Returns the ticket of a request. None: the command is not a request.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Start(start) => Some(start.ticket),
            Self::Decide(decide) => Some(decide.ticket),
            Self::Cancel { ticket, .. } | Self::Resume { ticket, .. } | Self::Rename { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }
}
