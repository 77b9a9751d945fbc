//! Events of a turn's stream.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Access, CallStatus, WorkingState};
use folio_types::Error;
use folio_types::message::{FinishReason, Usage};
use folio_types::policy::ApprovalRequirement;
use folio_types::{CallId, Digest, TurnId};

/// An event with its number in the stream of its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Id of the turn.
    pub turn: TurnId,
    /// Number of the event, from 1 and consecutive under one owner. A new owner starts at `takeovers << 32` + 1 with a
    /// snapshot.
    pub number: u64,
    /// The content.
    pub kind: EventKind,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum EventKind {
    /// The turn is accepted and durable.
    TurnStarted {
        /// Name of the turn's model.
        model: String,
    },
    /// A model call starts. A later attempt of a round voids the round's earlier deltas.
    RoundStarted {
        /// The round, from 1.
        round: u32,
        /// The attempt, from 1.
        attempt: u32,
    },
    /// A delta of the thinking.
    ThinkingDelta {
        /// Text to append.
        text: String,
    },
    /// A delta of the answer.
    TextDelta {
        /// Text to append.
        text: String,
    },
    /// The calls that the round requests.
    ToolCalls {
        /// The calls.
        calls: Vec<CallView>,
    },
    /// A call starts.
    ToolStarted {
        /// Id of the call.
        call: CallId,
        /// Name of the tool.
        name: String,
    },
    /// A call has a result.
    ToolResult {
        /// Id of the call.
        call: CallId,
        /// Name of the tool.
        name: String,
        /// Status of the call.
        status: CallStatus,
        /// The result for the model.
        content: String,
    },
    /// The round has ended.
    RoundFinished {
        /// Number of the round, from 1.
        round: u32,
        /// Name of the model that answered: the turn's model, or a fallback.
        #[serde(default)]
        model: String,
        /// Usage of the model call of the round.
        usage: Usage,
    },
    /// The state of the turn, if earlier events are unavailable or void. The next event has the next number.
    Snapshot(Box<TurnView>),
    /// Closing: the turn waits for decisions.
    AwaitingApproval {
        /// The pending round.
        round: u32,
        /// Every call of the round.
        pending: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// Closing: the turn is completed.
    Completed {
        /// The answer.
        text: String,
        /// Thinking that precedes the answer.
        thinking: String,
        /// The working state after the turn.
        working: WorkingState,
        /// The executed rounds.
        rounds: Vec<RoundView>,
        /// Reason for the end of the answer.
        finish: FinishReason,
        /// Usage of the turn's model calls.
        usage: Usage,
    },
    /// Closing: the turn failed.
    Failed {
        /// The error.
        error: Error,
        /// True if `ResumeTurn` can resume the turn.
        retriable: bool,
    },
    /// Closing: the turn was cancelled.
    Cancelled,
    /// Closing: the approval expired.
    Expired,
    /// Closing: another message superseded the turn.
    Superseded,
}

impl EventKind {
    /// Returns true if the event closes the stream.
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

/// A call for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallView {
    /// Id of the call.
    pub id: CallId,
    /// Name of the tool.
    pub name: String,
    /// The arguments, after an edit by a decision.
    pub arguments: Value,
    /// [`Digest::of_json`] of the arguments.
    pub digest: Digest,
    /// True if the tool writes.
    pub access: Access,
    /// True if the call waits for a decision.
    pub needs_approval: bool,
    /// The rule that requires a decision, and the approvers. None: the call needs no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_requirement: Option<ApprovalRequirement>,
}

/// A round for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundView {
    /// The round, from 1.
    pub round: u32,
    /// Text of the model in this round.
    pub text: String,
    /// Thinking of the model in this round.
    pub thinking: String,
    /// The calls of the round.
    pub calls: Vec<CallView>,
    /// Results of the calls so far.
    pub results: Vec<ResultView>,
}

/// A result for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultView {
    /// Id of the call.
    pub call: CallId,
    /// Status of the call.
    pub status: CallStatus,
    /// The result for the model.
    pub content: String,
}

/// The current state of a turn for clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnView {
    /// Id of the turn.
    pub turn: TurnId,
    /// State of the turn.
    pub status: TurnStatus,
    /// Name of the turn's model.
    pub model: String,
    /// The user message.
    pub user_text: String,
    /// The rounds, including the running one.
    pub rounds: Vec<RoundView>,
    /// Calls that wait for a decision. Empty unless the turn waits.
    pub pending: Vec<CallView>,
    /// Expiry of the pause. None: the turn does not wait.
    pub expires_at: Option<Timestamp>,
    /// The current working state.
    pub working: WorkingState,
    /// The answer of a completed turn.
    pub text: String,
    /// Reason for the end of the answer of a completed turn.
    pub finish: Option<FinishReason>,
    /// The error of a failed turn.
    pub error: Option<Error>,
    /// True if `ResumeTurn` can resume the turn.
    pub retriable: bool,
    /// Usage of its model calls so far.
    pub usage: Usage,
    /// Number of the next event.
    pub next_event: u64,
}

/// The state of a turn, for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// The turn is running.
    Running,
    /// The turn waits for decisions.
    AwaitingApproval,
    /// The turn is completed.
    Completed,
    /// The turn failed.
    Failed,
    /// The turn was cancelled.
    Cancelled,
    /// The approval expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
}
