//! What goes into the machine.

use folio_history::command::{IfBusy, IfPending};
use folio_history::journal::{Access, CallStatus, Decision, Mention, TurnOptions, WorkingChange};
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_types::message::{FinishReason, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::{Digest, Error, RequestId, Role, UserId};
use serde_json::Value;

/// Which request an answer belongs to: given by the shell, never used twice in a machine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What happened, or what somebody asks for. Requests carry a ticket and are answered once
/// ([`Effect::Answer`](super::Effect::Answer)), except where the machine asks to be reloaded: then those without an answer
/// are asked again of the machine that takes its place.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// Somebody chats.
    Start(Box<Start>),
    /// Somebody decides on the calls of the waiting round (`Approve`).
    Decide(Box<Decide>),
    /// Somebody cancels the turn.
    Cancel {
        /// Who is answered.
        ticket: Ticket,
        /// The turn.
        turn: u32,
    },
    /// Somebody goes on with a turn that failed retriably.
    Resume {
        /// Who is answered.
        ticket: Ticket,
        /// The turn.
        turn: u32,
    },
    /// Somebody gives the thread another title.
    Rename {
        /// Who is answered.
        ticket: Ticket,
        /// The title.
        title: String,
        /// The row of the request, where it has an id.
        request: Option<RequestRow>,
    },
    /// The sweep, or a timer, saw the pause of this turn expire.
    Expire {
        /// The turn.
        turn: u32,
    },
    /// The open turn has no living owner: take it over and bring it to its end or pause.
    TakeOver,
    /// The open turn has no living owner, for the store never takes what it would have written: take it over and end it so.
    Unwritable {
        /// What the store says.
        error: Error,
    },
    /// The model thinks or writes.
    ModelDelta {
        /// The round.
        round: u32,
        /// The attempt.
        attempt: u32,
        /// The piece.
        delta: Delta,
    },
    /// The model answered.
    ModelReplied {
        /// The round.
        round: u32,
        /// The attempt.
        attempt: u32,
        /// The answer, its calls checked against the tools.
        reply: Box<Reply>,
    },
    /// The model call failed, retries included, or was not permitted.
    ModelFailed {
        /// The round.
        round: u32,
        /// The attempt.
        attempt: u32,
        /// Why.
        error: Error,
        /// Whether the same call may succeed later.
        retriable: bool,
        /// What it used nevertheless.
        usage: Usage,
    },
    /// A write call's plan, or why it cannot run.
    Planned {
        /// The round.
        round: u32,
        /// The call's place.
        index: u32,
        /// What it will change; else what the model is told.
        plan: Result<CallPlan, String>,
    },
    /// A call ran.
    ToolFinished {
        /// The round.
        round: u32,
        /// The call's place.
        index: u32,
        /// What came of it.
        outcome: ToolOutcome,
    },
    /// A call's op row stands after closing.
    Closed {
        /// The round.
        round: u32,
        /// The call's place.
        index: u32,
        /// What its op row says: done or conflict with their result; none: aborted, it never happened.
        result: Option<ToolResult>,
    },
    /// The append stands; the header after it.
    Appended {
        /// The append.
        batch: u128,
        /// The header.
        header: Box<ThreadHeader>,
    },
    /// The append was refused.
    Refused {
        /// The append.
        batch: u128,
        /// The header that stands.
        header: Box<ThreadHeader>,
        /// The row of the request id, where one was to be inserted and one stands.
        request: Option<RequestRow>,
    },
    /// Nobody knows whether the append (or the row of the open turn before it) stands.
    Unknown {
        /// The append.
        batch: u128,
    },
    /// What a look for an append found.
    LookedUp {
        /// The append.
        batch: u128,
        /// Whether it stands.
        stands: bool,
        /// The header, read after.
        header: Box<ThreadHeader>,
    },
}

/// A chat request.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Who is answered.
    pub ticket: Ticket,
    /// The client's id for the request (or a generated one).
    pub request: RequestId,
    /// Digest of the request's content.
    pub digest: Digest,
    /// Who asks.
    pub user: UserId,
    /// The message.
    pub text: String,
    /// What it refers to.
    pub mentions: Vec<Mention>,
    /// How the turn is to run.
    pub options: TurnOptions,
    /// User and final assistant messages that stay; none: all.
    pub truncate_to: Option<u32>,
    /// What to do if a turn is running. `Enqueue` is refused like `Reject`; the shell then queues the chat.
    pub if_busy: IfBusy,
    /// What to do while a turn waits for approval.
    pub if_pending: IfPending,
}

/// An `Approve` request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decide {
    /// Who is answered.
    pub ticket: Ticket,
    /// The turn.
    pub turn: u32,
    /// The round that `Approve` without decisions runs; none: the one that waits.
    pub round: Option<u32>,
    /// The decisions; may be empty.
    pub decisions: Vec<Asked>,
    /// Calls that need a decision and have none are rejected.
    pub reject_undecided: bool,
    /// Go on through rounds that need no approval until the turn pauses for one or ends.
    pub continue_auto_approved: bool,
    /// Who decides; sees the thread, or may approve in it (the caller checked).
    pub by: UserId,
    /// The role of who decides.
    pub role: Role,
}

/// One decision as a client asks for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The round of the call.
    pub round: u32,
    /// Its place.
    pub index: u32,
    /// The decision.
    pub decision: Decision,
    /// Digest of the arguments that the client saw; must match where given.
    pub digest: Option<Digest>,
    /// What is wrong with edited arguments (checked against the tool's schema by the shell).
    pub problem: Option<String>,
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Thinking.
    Thinking(String),
    /// Text.
    Text(String),
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The model that answered.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Its thinking.
    pub thinking: Vec<ThinkingBlock>,
    /// The calls that it asks for.
    pub calls: Vec<CheckedCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// What it used.
    pub usage: Usage,
}

/// A call that a model asks for, checked against the tools.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedCall {
    /// The provider's id.
    pub provider_id: String,
    /// The tool.
    pub name: String,
    /// The arguments; an empty object where they were none.
    pub arguments: Value,
    /// What the tool may touch ([`Access::ReadOnly`] where there is no such tool).
    pub access: Access,
    /// Why it cannot run: unknown tool, arguments that are no JSON object or break the tool's schema.
    pub problem: Option<String>,
}

/// What a write call will change: becomes its intent.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// The aggregate.
    pub target: Target,
    /// What the deciding write expects of it.
    pub expected: Expected,
    /// What else was resolved.
    pub resolved: Value,
}

/// What came of running a call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolOutcome {
    /// It ran, well or not; for a write: its op row stands with this result, or no deciding write was ever sent and none
    /// ever will be.
    Done(ToolResult),
    /// Nobody knows, or its target moved: recovery decides.
    Unclear,
    /// It asked for a model call that it was refused (no credit, too many at once) before anything came of it: no model was
    /// paid, no deciding write was sent and none ever will be.
    Refused(Error),
}

/// A result for the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// How it ended.
    pub status: CallStatus,
    /// The text.
    pub content: String,
    /// How the working state changes.
    pub change: WorkingChange,
    /// What the model calls of the tool used.
    pub usage: Usage,
}

impl Command {
    /// Who is answered; none: nobody is.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Start(start) => Some(start.ticket),
            Self::Decide(decide) => Some(decide.ticket),
            Self::Cancel { ticket, .. } | Self::Resume { ticket, .. } | Self::Rename { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }
}
