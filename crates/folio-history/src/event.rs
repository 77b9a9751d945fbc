//! Events of a turn's stream.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Access, CallStatus, RoundNode, WorkingState};
use crate::task::{ChildStatus, GroupView, TaskOrigin, TaskView};
use folio_resources::policy::ApprovalRequirement;
use folio_types::message::{FinishReason, Usage};
use folio_types::{BudgetUse, CallId, Digest, Error, GroupId, TurnId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub turn: TurnId,
    /// From 1 and consecutive under one owner, also after the owner reloaded a waiting turn. A new owner starts at
    /// `(takeovers << 32) + 1` with a snapshot.
    pub number: u64,
    pub kind: EventKind,
    /// The task of a child turn. The actor of the thread sets it. None: the turn is not a child turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskOrigin>>,
}

impl Event {
    /// Creates an event without a task.
    pub fn new(turn: TurnId, number: u64, kind: EventKind) -> Self {
        Self { turn, number, kind, task: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// The turn is accepted and durable.
    TurnStarted { model: String },
    /// A model call starts. `round` and `attempt` are counted from 1. A later attempt of the same round voids the deltas
    /// of the earlier attempts.
    RoundStarted { round: u32, attempt: u32 },
    /// The first model call of a node of the turn's graph starts.
    NodeStarted { round: u32, name: String },
    /// A node has ended with its answer. The answer of the turn is stored, and only the memory of the thread is still updated.
    NodeEnded { round: u32, node: Box<RoundNode> },
    /// A part of the model's thinking.
    ThinkingDelta { text: String },
    /// A part of the model's answer.
    TextDelta { text: String },
    /// The model requested these calls.
    ToolCalls { calls: Vec<CallView> },
    /// A call started.
    ToolStarted { call: CallId, name: String },
    /// A write call waits, because the store does not answer. The call continues when the store answers.
    WaitingForStore { call: CallId, name: String },
    /// A call of `run_tasks` starts these tasks. The turn waits until they have ended.
    TasksStarted { group: GroupView },
    /// A task of the group has ended. May be repeated after the thread changed its owner.
    TaskEnded { call: CallId, group: GroupId, task: TaskView, status: ChildStatus },
    /// A call ended with this result.
    ToolResult {
        call: CallId,
        name: String,
        status: CallStatus,
        /// Result as the model receives it.
        content: String,
    },
    /// The model call and the tool calls of a round ended.
    RoundFinished {
        round: u32,
        /// Model that answered: the turn's model or a fallback.
        #[serde(default)]
        model: String,
        /// Usage of the round's model call.
        usage: Usage,
    },
    /// State of the turn, sent if earlier events are unavailable or void. The next event has the next number.
    Snapshot(Box<TurnView>),
    /// Closing: the turn waits for decisions on `pending`, which contains all calls of the round. Decisions are refused
    /// from `expires_at` on.
    AwaitingApproval { round: u32, pending: Vec<CallView>, expires_at: Timestamp },
    /// Closing: the turn is completed.
    Completed {
        text: String,
        /// Thinking that precedes the answer.
        thinking: String,
        /// Working state after the turn.
        working: WorkingState,
        rounds: Vec<RoundView>,
        finish: FinishReason,
        /// Usage of all model calls of the turn.
        usage: Usage,
    },
    /// Closing: the turn failed. `retriable`: `ResumeTurn` can resume the turn.
    Failed { error: Error, retriable: bool },
    /// Closing: the turn was cancelled.
    Cancelled,
    /// Closing: the approval expired.
    Expired,
    /// Closing: another message superseded the turn.
    Superseded,
}

impl EventKind {
    pub fn is_closing(&self) -> bool {
        matches!(
            self,
            Self::AwaitingApproval { .. }
                | Self::Completed { .. }
                | Self::Failed { .. }
                | Self::Cancelled
                | Self::Expired
                | Self::Superseded
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallView {
    pub id: CallId,
    /// Name of the tool.
    pub name: String,
    /// After an edit by a decision.
    pub arguments: Value,
    /// [`Digest::of_json`] of the arguments.
    pub digest: Digest,
    pub access: Access,
    pub needs_approval: bool,
    /// Rule that requires a decision, and the approvers. None: the call needs no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_requirement: Option<ApprovalRequirement>,
    /// The child turns of a call of `run_tasks`. None: the call has started none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundView {
    /// Counted from 1.
    pub round: u32,
    pub text: String,
    pub thinking: String,
    pub calls: Vec<CallView>,
    /// Results so far.
    pub results: Vec<ResultView>,
    /// The node of the turn's graph that made the round. None: the turn has no graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<RoundNode>>,
}

impl RoundView {
    /// Returns a round without text and calls.
    pub fn new(round: u32) -> Self {
        let (text, thinking, calls, results) = Default::default();
        Self { round, text, thinking, calls, results, node: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultView {
    pub call: CallId,
    pub status: CallStatus,
    /// Result as the model receives it.
    pub content: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnView {
    pub turn: TurnId,
    pub status: TurnStatus,
    pub model: String,
    pub user_text: String,
    /// Includes the running round.
    pub rounds: Vec<RoundView>,
    /// Empty unless the turn waits for decisions.
    pub pending: Vec<CallView>,
    /// Time from which decisions are refused. None: the turn does not wait.
    pub expires_at: Option<Timestamp>,
    pub working: WorkingState,
    /// Answer of a completed turn. Empty otherwise.
    pub text: String,
    /// None: the turn is not completed.
    pub finish: Option<FinishReason>,
    /// None: the turn did not fail.
    pub error: Option<Error>,
    /// True if `ResumeTurn` can resume the turn.
    pub retriable: bool,
    /// Usage of all model calls so far.
    pub usage: Usage,
    pub next_event: u64,
    /// Undecided calls of `pending` that the caller may approve. Empty in events, which all watchers share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvable: Vec<CallId>,
    /// Use of the credit budget of the turn, in answers to a read of the turn. None: no budget, or not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetUse>,
    /// The task of a child turn. None: the turn is not a child turn, or an event contains the view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<TaskOrigin>>,
}

impl TurnView {
    /// Returns a running turn without rounds.
    pub fn new(turn: TurnId, model: &str, user_text: &str) -> Self {
        Self {
            turn,
            status: TurnStatus::Running,
            model: model.to_owned(),
            user_text: user_text.to_owned(),
            rounds: Vec::new(),
            pending: Vec::new(),
            expires_at: None,
            working: WorkingState::default(),
            text: String::new(),
            finish: None,
            error: None,
            retriable: false,
            usage: Usage::default(),
            next_event: 1,
            approvable: Vec::new(),
            budget: None,
            task: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    Running,
    /// The turn waits for decisions.
    AwaitingApproval,
    Completed,
    Failed,
    Cancelled,
    /// The approval expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
}
