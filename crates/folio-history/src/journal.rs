//! The journal of a thread: its entries in order. The history that a reader or a model sees is a fold over them; there
//! is no second copy of it.
//!
//! Entries are stored. A change must keep old entries readable; the golden files of `folio-storage` test this.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use folio_types::Error;
use folio_types::message::{FinishReason, Message, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::policy::{ApprovalRequirement, Policy};
use folio_types::{
    Digest, DocumentId, ExtractionId, Incarnation, PromptId, PromptRevId, RequestId, SchemaId, SchemaRevId, TagId,
    UserId,
};

/// One entry. `turn` is the number of the turn in its thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// A turn was accepted.
    Accepted(Box<Accepted>),
    /// A round: the model's answer, and the results of the calls that needed no intent.
    Round(Box<Round>),
    /// The turn waits for decisions on the calls of its newest round.
    Paused(Paused),
    /// Decisions of one request, durable before any call runs.
    Decisions(Decisions),
    /// A write call is about to start.
    Intent(Intent),
    /// The outcome of one call.
    Outcome(Outcome),
    /// A new owner, or a new attempt after a failed end, continues the turn.
    Resumed(Resumed),
    /// The turn is being ended with open intents: the next owner completes the closing and runs no further call.
    Closing(Closing),
    /// The turn ended.
    Ended(Box<Ended>),
    /// Messages that precede the thread: of a fork, or of the request for an ephemeral thread.
    Imported(Imported),
}

impl Entry {
    /// Returns the number of the entry's turn. None: the entry belongs to no turn.
    pub fn turn(&self) -> Option<u32> {
        match self {
            Self::Accepted(accepted) => Some(accepted.turn),
            Self::Round(round) => Some(round.turn),
            Self::Paused(paused) => Some(paused.turn),
            Self::Decisions(decisions) => Some(decisions.turn),
            Self::Intent(intent) => Some(intent.turn),
            Self::Outcome(outcome) => Some(outcome.turn),
            Self::Resumed(resumed) => Some(resumed.turn),
            Self::Closing(closing) => Some(closing.turn),
            Self::Ended(ended) => Some(ended.turn),
            Self::Imported(_) => None,
        }
    }

    /// Returns whether the entry starts a segment of the history: a turn, or imported messages. The entries up to the
    /// next such entry belong to it.
    pub fn begins(&self) -> bool {
        matches!(self, Self::Accepted(_) | Self::Imported(_))
    }

    /// Returns the position of the segment that the entry starts, if known.
    pub fn position(&self) -> Option<&SegmentPosition> {
        match self {
            Self::Accepted(accepted) => accepted.position.as_ref(),
            Self::Imported(imported) => imported.position.as_ref(),
            _ => None,
        }
    }
}

/// A turn was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The client's id for the request.
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
    /// Number of kept messages (user and final assistant ones); later ones are dropped. None: all.
    pub truncate_to: Option<u32>,
    /// The working state that the turn starts from.
    pub working: WorkingState,
    /// Position of its messages. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<SegmentPosition>,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Position of an entry's messages among the messages that were visible when it was appended, after its truncation.
/// With positions a reader finds any message in a number of steps that grows with the logarithm of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentPosition {
    /// Visible messages before the entry's own messages.
    pub messages: u32,
    /// User and final assistant messages among them.
    pub counted: u32,
    /// Sequence numbers of the entries that started the segments 1, 2, 4, 8, … before it, as far as they exist. The
    /// visible messages of the first one are the difference between the two positions.
    pub below: Vec<u64>,
}

/// Options of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnOptions {
    /// The model, resolved when the turn was accepted.
    pub model: String,
    /// If true, calls run without approval.
    pub auto_approve: bool,
    /// Tools whose calls run without approval.
    pub auto_approved_tools: Vec<String>,
    /// Seconds that a pause waits for decisions.
    pub approval_ttl_seconds: u32,
    /// Maximum model calls of the turn.
    pub rounds_max: u32,
    /// Rules of the organization's policy that may apply to the turn, at the time of its acceptance.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
}

/// A reference in a message, resolved on the server within the organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Mention {
    /// A schema revision.
    Schema(SchemaRevId),
    /// A prompt revision.
    Prompt(PromptRevId),
    /// A tag.
    Tag(TagId),
}

/// A round: one model call and the calls that it requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The round, from 1.
    pub round: u32,
    /// The model that answered.
    pub model: String,
    /// Text of the answer.
    pub text: String,
    /// Thinking of the answer.
    pub thinking: Vec<ThinkingBlock>,
    /// The requested calls in order. A call's index is its position, from 1.
    pub calls: Vec<Call>,
    /// Results of calls that ran before the round was appended, by index.
    pub results: Vec<CallResult>,
    /// Usage of the model call.
    pub usage: Usage,
}

/// A call that a model requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Index in the round, from 1.
    pub index: u32,
    /// The provider's id, which may repeat.
    pub provider_id: String,
    /// Name of the tool.
    pub name: String,
    /// The model's arguments. An empty object if they were not a JSON object.
    pub arguments: Value,
    /// Access of the tool.
    pub access: Access,
    /// True if the call waits for a decision.
    pub needs_approval: bool,
    /// The rule that requires the decision. None: no rule does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_requirement: Option<ApprovalRequirement>,
    /// Reason why the call cannot run (an unknown tool, or arguments that are not JSON or do not match the tool's
    /// schema). Its result contains it.
    pub problem: Option<String>,
}

/// Access of a tool to resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The tool only reads. Its calls run immediately.
    ReadOnly,
    /// The tool writes. Its calls may wait for a decision and take effect once.
    ReadWrite,
}

/// The result of a call, as the model receives it. Final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The round of the call.
    pub round: u32,
    /// Index of the call in the round.
    pub index: u32,
    /// Outcome of the call.
    pub status: CallStatus,
    /// The result's text.
    pub content: String,
    /// Changes of the working state.
    #[serde(default, skip_serializing_if = "WorkingChange::is_empty")]
    pub change: WorkingChange,
    /// Usage of the tool's model calls, independent of the outcome.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// Time of the result. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The call succeeded.
    Ok,
    /// The call failed. The content contains the reason.
    Failed,
    /// The user rejected the call.
    Rejected,
    /// The turn was cancelled before the call ran.
    Cancelled,
    /// The approval expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
    /// The target changed since the approval; nothing was written.
    Conflict,
    /// The turn had no rounds left.
    NotRun,
}

impl CallStatus {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Superseded => "superseded",
            Self::Conflict => "conflict",
            Self::NotRun => "not_run",
        }
    }
}

/// A turn waits for decisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The pending round.
    pub round: u32,
    /// Time from which decisions are refused.
    pub expires_at: Timestamp,
    /// The working state at the pause.
    pub working: WorkingState,
    /// Number of the closing event of the stream.
    pub event: u64,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Decisions of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// Number of the round, from 1.
    pub round: u32,
    /// Decisions by the index of the call.
    pub decided: Vec<(u32, Decision)>,
    /// The approver.
    pub by: UserId,
    /// The time at which expiry was evaluated.
    pub decided_at: Timestamp,
    /// If true, the turn continues through rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

/// A decision on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Decision {
    /// The call runs.
    Approve,
    /// The call runs with these arguments, which the history contains.
    ApproveEdited {
        /// The complete arguments, validated against the tool's schema.
        arguments: Value,
    },
    /// The call does not run.
    Reject {
        /// Reason for the model, in addition to the rejection.
        reason: Option<String>,
    },
}

/// A write call is about to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// Number of the round, from 1.
    pub round: u32,
    /// Index of the call in the round.
    pub index: u32,
    /// The aggregate that the call changes.
    pub target: Target,
    /// The version that the deciding write expects, at execution and in recovery.
    pub expected: Expected,
    /// Other values that the tool resolved (names to ids), so that recovery uses the same ones.
    #[serde(default)]
    pub resolved: Value,
    /// Time of the entry. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The outcome of a call after its intent, or in the order of an approved round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The result.
    pub result: CallResult,
}

/// The turn continues under a new owner or as a new attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The new owner.
    pub owner: Incarnation,
    /// Epoch of the new owner.
    pub epoch: u64,
    /// Takeover or new attempt.
    pub why: ResumeCause,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Cause of a resumption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeCause {
    /// The previous owner is dead.
    Takeover,
    /// The turn had failed retriably.
    Retry,
}

/// The turn is being ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The end that follows.
    pub why: ClosingCause,
    /// Time of the entry.
    pub at: Timestamp,
}

/// The end that follows a `closing` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosingCause {
    /// The turn was cancelled.
    Cancelled,
    /// Another message supersedes the turn.
    Superseded,
}

/// The turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Number of the turn in its thread.
    pub turn: u32,
    /// The kind of end.
    pub how: End,
    /// Results, including synthetic ones, of calls that had none.
    pub results: Vec<CallResult>,
    /// True if these results are not final: none of their calls started, and resuming the turn runs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_again: bool,
    /// The working state after the turn.
    pub working: WorkingState,
    /// Usage of the turn's model calls.
    pub usage: Usage,
    /// Number of the closing event.
    pub event: u64,
    /// Time of the entry.
    pub at: Timestamp,
}

/// The kind of a turn's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// The turn is completed.
    Completed {
        /// The answer.
        text: String,
        /// Thinking that precedes the answer.
        thinking: Vec<ThinkingBlock>,
        /// Reason for the end of the answer.
        finish: FinishReason,
    },
    /// The turn failed.
    Failed {
        /// The error.
        error: Error,
        /// True if `ResumeTurn` can resume the turn.
        retriable: bool,
    },
    /// The turn was cancelled.
    Cancelled,
    /// The approval expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
}

/// Messages that precede the thread. A long history is split into several such entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The messages, sanitized.
    pub messages: Vec<Message>,
    /// The working state after them.
    pub working: WorkingState,
    /// Position of the messages. None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<SegmentPosition>,
}

/// The working state of a thread: the model receives it in each round, and it is stored after each turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingState {
    /// The last created schema revision.
    pub schema_revid: Option<SchemaRevId>,
    /// The last created or executed prompt revision.
    pub prompt_revid: Option<PromptRevId>,
    /// The last extraction.
    pub extraction: Option<WorkingExtraction>,
}

/// The extraction that the agent edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingExtraction {
    /// Id of the extraction.
    pub id: ExtractionId,
    /// The document of the extraction.
    pub document: DocumentId,
    /// The prompt of the extraction.
    pub prompt: PromptRevId,
    /// The current data.
    pub data: Value,
}

/// The changes of a call to the working state. Deleted resources are removed from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingChange {
    /// The new schema revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_revid: Option<SchemaRevId>,
    /// The new prompt revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_revid: Option<PromptRevId>,
    /// The new extraction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction: Option<WorkingExtraction>,
    /// A deleted schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_schema: Option<SchemaId>,
    /// A deleted prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_prompt: Option<PromptId>,
    /// A deleted document, with its extractions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_document: Option<DocumentId>,
}

impl WorkingChange {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl WorkingState {
    /// Returns the state after a call's change.
    pub fn apply(&mut self, change: &WorkingChange) {
        if let Some(deleted) = &change.deleted_schema {
            self.schema_revid.take_if(|revid| revid.of == *deleted);
        }
        if let Some(deleted) = &change.deleted_prompt {
            self.prompt_revid.take_if(|revid| revid.of == *deleted);
        }
        if let Some(deleted) = &change.deleted_document {
            self.extraction.take_if(|extraction| extraction.document == *deleted);
        }
        if let Some(revid) = &change.schema_revid {
            self.schema_revid = Some(revid.clone());
        }
        if let Some(revid) = &change.prompt_revid {
            self.prompt_revid = Some(revid.clone());
        }
        if let Some(extraction) = &change.extraction {
            self.extraction = Some(extraction.clone());
        }
    }
}
