//! Input of the turn machine.

use folio_history::command::{IfBusy, IfPending};
use folio_history::journal::{Access, CallStatus, Decision, Mention, TurnOptions, WorkingChange};
use folio_history::task::{ChildEnd, ChildState};
use folio_history::thread::{RequestRow, ThreadHeader};
use folio_tools::policy::CurrentRules;
use folio_types::message::{FinishReason, MessageImage, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::{Digest, Error, Principal, RequestId, Role, UserId};
use serde_json::Value;

/// Identifies a request and its answer. Assigned by the shell (the actor) and unique per machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request, or the result of an effect. Each request has a ticket and is answered once
/// ([`Effect::Answer`](super::Effect::Answer)). If the machine requests a reload, the shell passes the unanswered
/// requests to the next machine.
///
/// `round` and `attempt` are counted from 1. `index` is the position of a call in its round, from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A chat.
    Start(Box<Start>),
    /// Decisions on calls of the pending round.
    Decide(Box<Decide>),
    /// Ends a turn.
    Cancel { ticket: Ticket, turn: u32 },
    /// Resumes a turn that failed retriably.
    Resume { ticket: Ticket, turn: u32 },
    /// Renames the thread. `request` is None if the request has no id.
    Rename { ticket: Ticket, title: String, request: Option<RequestRow> },
    /// The sweep or a timer found an expired pause or group.
    Expire { turn: u32 },
    /// The open turn has no live owner: take it over and advance it to its end or pause. A turn that waits for child turns
    /// reads their states.
    TakeOver,
    /// The store permanently refused entries of the open turn: take over the turn and end it with this error.
    Unwritable { error: Error },
    /// A part of the model's answer.
    ModelDelta { round: u32, attempt: u32, delta: Delta },
    /// The model answered completely. The calls of the reply have been checked against the tools.
    ModelReplied { round: u32, attempt: u32, reply: Box<Reply> },
    /// The model call failed after all retries, or was not permitted. `retriable`: the same call may succeed later.
    ModelFailed { round: u32, attempt: u32, error: Error, retriable: bool, usage: Usage },
    /// The tool planned a write call.
    Planned { round: u32, index: u32, plan: Result<CallPlan, PlanFailure> },
    /// The tasks of a call of `run_tasks` are checked. `running_max`: the maximum number of child turns that run at a time.
    TasksPlanned { round: u32, index: u32, tasks: Result<Vec<PlannedTask>, PlanFailure>, running_max: u32 },
    /// The states of the children of a group, in order.
    ChildrenRead { round: u32, index: u32, states: Vec<ChildState> },
    /// A child turn was accepted, or refused.
    ChildStarted { round: u32, index: u32, number: u32, started: Result<(), StartFailure> },
    /// Every child of an ending turn has ended and can no longer start. `ends`: in order.
    ChildrenEnded { round: u32, index: u32, ends: Vec<ChildEnd> },
    /// The store does not answer a call. The call is retried.
    StoreAwaited { round: u32, index: u32 },
    /// A tool call ended.
    ToolFinished { round: u32, index: u32, outcome: ToolOutcome },
    /// The op row of a call was closed or existed before. `result`: the result that the row records (done, or a
    /// conflict). None: the op is aborted and never takes effect. `usage`: that of the call's model calls in this process.
    Closed { round: u32, index: u32, result: Option<ToolResult>, usage: Usage },
    /// The append is committed. `header`: the header after the append.
    Appended { batch: u128, header: Box<ThreadHeader> },
    /// The store refused the append, because the header had changed or the request id exists. `header`: the current
    /// header. `request`: the existing row of the request id that the append would insert.
    AppendRefused { batch: u128, header: Box<ThreadHeader>, request: Option<RequestRow> },
    /// The outcome of the append, or of the preceding insertion of the open-turn row, is unknown.
    AppendUnknown { batch: u128 },
    /// Result of the lookup of an append. The header was read after the batch.
    LookedUp { batch: u128, is_committed: bool, header: Box<ThreadHeader> },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub ticket: Ticket,
    /// The client's request id or a generated one.
    pub request: RequestId,
    /// Digest of the request's content.
    pub digest: Digest,
    /// The requester.
    pub user: UserId,
    /// Role of the request.
    pub role: Role,
    pub text: String,
    pub images: Vec<MessageImage>,
    pub mentions: Vec<Mention>,
    pub options: TurnOptions,
    /// Number of user and final assistant messages to keep. None: all.
    pub truncate_to: Option<u32>,
    /// [`IfBusy::Enqueue`] is refused like [`IfBusy::Reject`]; the shell then queues the chat.
    pub if_busy: IfBusy,
    pub if_pending: IfPending,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decide {
    pub ticket: Ticket,
    pub turn: u32,
    /// Round to decide. None: the round of the decisions. Required if there are no decisions.
    pub round: Option<u32>,
    /// May be empty.
    pub decisions: Vec<RequestedDecision>,
    /// If true, undecided calls that need a decision are rejected.
    pub reject_undecided: bool,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
    /// The approver, with at most its current role. The shell has checked access to the thread or to the turn's
    /// approvals.
    pub by: Principal,
    /// Rules that an approval must satisfy in addition to those of the turn.
    pub current: CurrentRules,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RequestedDecision {
    /// Round of the call, from 1.
    pub round: u32,
    /// Index of the call in the round, from 1.
    pub index: u32,
    pub decision: Decision,
    /// Digest of the arguments that the approver saw; it must match the call's. None: not checked.
    pub digest: Option<Digest>,
    /// Violation of the tool's schema by edited arguments. None: they are valid or unedited.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Thinking(String),
    Text(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// Model that answered.
    pub model: String,
    pub text: String,
    pub thinking: Vec<ThinkingBlock>,
    /// In the order of the answer.
    pub calls: Vec<CheckedCall>,
    pub finish: FinishReason,
    pub usage: Usage,
    /// Violations of the answer type of the turn, for the model. None: the answer is valid, or it has calls.
    pub answer_problem: Option<String>,
}

/// A call that a model requested, checked against the tools.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedCall {
    /// Id that the provider assigned; it may repeat.
    pub provider_id: String,
    pub name: String,
    /// Empty object if the model's arguments were invalid.
    pub arguments: Value,
    /// [`Access::ReadOnly`] for an unknown tool.
    pub access: Access,
    /// Reason why the call cannot run: an unknown tool, or arguments that are not a JSON object or violate the tool's
    /// schema. None: the call can run.
    pub problem: Option<String>,
    /// Repairs that made `arguments` out of those that the model sent, for its result.
    pub repairs: Vec<String>,
}

/// A checked task of a call of `run_tasks`, which its group records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTask {
    /// Profile of the child turn.
    pub profile: String,
    /// The tool that the child turn runs without a model. None: the agent works on the task.
    pub tool: Option<String>,
    /// True if the profile may delegate.
    pub may_delegate: bool,
}

/// Reason why a child turn was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartFailure {
    /// The same start fails again: the child has this end.
    Refused(String),
    /// The store, the node of the child or a quota permits no start now. A later check starts the child.
    Later,
}

/// The plan of a write call, which its intent records.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPlan {
    /// Resource that the call changes.
    pub target: Target,
    /// Version of the target that the write expects.
    pub expected: Expected,
    /// Other values that the tool resolved, such as ids of names.
    pub resolved: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanFailure {
    /// Error text for the model: the call fails.
    Failed(String),
    /// The store did not answer ([`Patience::Once`](super::Patience::Once)).
    StoreUnavailable,
}

#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every outcome is a result")]
pub enum ToolOutcome {
    /// The call ran. For a write: its op row is stored with this result, or no deciding write was sent and none will
    /// be.
    Done(ToolResult),
    /// The outcome is unknown (the store did not answer) or the target changed, so recovery must determine the outcome.
    Unknown,
    /// The tool's first model call was refused (no credit or no slot): nothing was charged, no deciding write was sent
    /// and none will be.
    Refused(Error),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    pub status: CallStatus,
    /// Result as the model receives it.
    pub content: String,
    pub change: WorkingChange,
    /// Usage of the tool's own model calls.
    pub usage: Usage,
}

impl Command {
    /// None: the command is not a request.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Start(start) => Some(start.ticket),
            Self::Decide(decide) => Some(decide.ticket),
            Self::Cancel { ticket, .. } | Self::Resume { ticket, .. } | Self::Rename { ticket, .. } => Some(*ticket),
            _ => None,
        }
    }
}
