//! Events of a turn's stream.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Access, CallStatus, WorkingState};
use folio_types::Error;
use folio_types::message::{FinishReason, Usage};
use folio_types::policy::Waits;
use folio_types::{CallId, Digest, TurnId};

/// An event with its place in its turn's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The turn.
    pub turn: TurnId,
    /// From 1, growing by one under one owner; a new owner starts at `takeovers << 32` + 1 with a snapshot.
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
        /// The model that it runs with.
        model: String,
    },
    /// A model call begins. A later attempt of a round voids the round's earlier deltas.
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
    /// The calls that the round asks for.
    ToolCalls {
        /// The calls.
        calls: Vec<CallView>,
    },
    /// A call begins to run.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
    },
    /// A call has its result.
    ToolResult {
        /// The call.
        call: CallId,
        /// The tool.
        name: String,
        /// Status of the call.
        status: CallStatus,
        /// The result as the model reads it.
        content: String,
    },
    /// The round is over.
    RoundFinished {
        /// The round.
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
        /// From when no decision counts.
        expires_at: Timestamp,
    },
    /// Closing: the agent is done.
    Completed {
        /// The answer.
        text: String,
        /// The thinking before it.
        thinking: String,
        /// The working state after the turn.
        working: WorkingState,
        /// The executed rounds.
        rounds: Vec<RoundView>,
        /// Why it stopped.
        finish: FinishReason,
        /// The sum over the turn's model calls.
        usage: Usage,
    },
    /// Closing: something failed.
    Failed {
        /// The error.
        error: Error,
        /// Whether `ResumeTurn` can resume the turn.
        retriable: bool,
    },
    /// Closing: the turn was cancelled.
    Cancelled,
    /// Closing: no decision came in time.
    Expired,
    /// Closing: another message took its place.
    Superseded,
}

impl EventKind {
    /// Whether a stream ends with it.
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

/// A call as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallView {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Its arguments: the edited ones once a decision edited them.
    pub arguments: Value,
    /// [`Digest::of_json`] of the arguments.
    pub digest: Digest,
    /// Whether the tool writes.
    pub access: Access,
    /// Whether it waits for a decision.
    pub needs_approval: bool,
    /// The rule that requires a decision, and the approvers. None: the call needs no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
}

/// A round as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundView {
    /// The round, from 1.
    pub round: u32,
    /// Text of the model in this round.
    pub text: String,
    /// Thinking of the model in this round.
    pub thinking: String,
    /// Its calls.
    pub calls: Vec<CallView>,
    /// Results of the calls so far.
    pub results: Vec<ResultView>,
}

/// A result as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultView {
    /// The call.
    pub call: CallId,
    /// Status of the call.
    pub status: CallStatus,
    /// The result as the model reads it.
    pub content: String,
}

/// A turn as clients see it at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnView {
    /// The turn.
    pub turn: TurnId,
    /// State of the turn.
    pub status: TurnStatus,
    /// The model that it runs with.
    pub model: String,
    /// The user message.
    pub user_text: String,
    /// The rounds so far, the running one among them.
    pub rounds: Vec<RoundView>,
    /// The calls that wait, while it waits.
    pub pending: Vec<CallView>,
    /// Expiry of the pause. None: the turn does not wait.
    pub expires_at: Option<Timestamp>,
    /// The working state now.
    pub working: WorkingState,
    /// The answer, once it is completed.
    pub text: String,
    /// Why it stopped, once it is completed.
    pub finish: Option<FinishReason>,
    /// The error of a failed turn.
    pub error: Option<Error>,
    /// Whether `ResumeTurn` can resume the turn.
    pub retriable: bool,
    /// The sum over its model calls so far.
    pub usage: Usage,
    /// The number that the next event will have.
    pub next_event: u64,
}

/// The state of a turn, for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It runs.
    Running,
    /// It waits for decisions.
    AwaitingApproval,
    /// The agent is done.
    Completed,
    /// Something failed.
    Failed,
    /// The turn was cancelled.
    Cancelled,
    /// No decision came in time.
    Expired,
    /// Another message took its place.
    Superseded,
}
