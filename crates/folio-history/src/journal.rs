//! The journal of a thread: its entries in order. The history that a reader or a model sees is a fold over them; there
//! is no second copy of it.
//!
//! Entries are stored. A change here must keep old ones readable: the golden files of `folio-storage` hold that.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use folio_types::Error;
use folio_types::message::{FinishReason, Message, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::policy::{Policy, Waits};
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
    /// A round: what the model answered, and the results of the calls that needed no intent.
    Round(Box<Round>),
    /// The turn waits for decisions on the calls of its newest round.
    Paused(Paused),
    /// Decisions that arrived together, durable before anything runs.
    Decisions(Decisions),
    /// A write call is about to run.
    Intent(Intent),
    /// The outcome of one call.
    Outcome(Outcome),
    /// A new owner, or a new attempt after a failed end, continues the turn.
    Resumed(Resumed),
    /// The turn is being ended with open intents: the next owner finishes closing and runs nothing more.
    Closing(Closing),
    /// The turn ended.
    Ended(Box<Ended>),
    /// Messages that were there before the thread: a fork's, or what an ephemeral thread brought.
    Imported(Imported),
}

impl Entry {
    /// The turn that it belongs to; none: it is of no turn.
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

    /// Whether the entry starts a segment of the history: a turn, or imported messages. The entries up to the next such
    /// entry belong to it.
    pub fn begins(&self) -> bool {
        matches!(self, Self::Accepted(_) | Self::Imported(_))
    }

    /// Returns the position of the segment that the entry starts, if known.
    pub fn place(&self) -> Option<&SegmentPosition> {
        match self {
            Self::Accepted(accepted) => accepted.place.as_ref(),
            Self::Imported(imported) => imported.place.as_ref(),
            _ => None,
        }
    }
}

/// A turn was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The turn.
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
    /// Messages (user and final assistant ones) of the history that stay; later ones are dropped.
    pub truncate_to: Option<u32>,
    /// The working state that the turn starts from.
    pub working: WorkingState,
    /// Position of its messages. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<SegmentPosition>,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Position of an entry's messages among the messages that were visible when it was appended, after its truncation.
/// With positions a reader finds any message in a number of steps that grows with the logarithm of the thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentPosition {
    /// Visible messages before its own.
    pub messages: u32,
    /// User and final assistant ones among them.
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
    /// Whether no call waits.
    pub auto_approve: bool,
    /// Tools whose calls run without approval.
    pub auto_approved_tools: Vec<String>,
    /// Seconds that a pause waits.
    pub approval_ttl_seconds: u32,
    /// Model calls of the turn at most.
    pub rounds_max: u32,
    /// The rules of the organization's policy that may concern the turn, as they were when it was accepted.
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

/// A round: one model call and the calls that it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The turn.
    pub turn: u32,
    /// The round, from 1.
    pub round: u32,
    /// The model that answered.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Its thinking.
    pub thinking: Vec<ThinkingBlock>,
    /// The calls that it asked for, in order; a call's index is its place, from 1.
    pub calls: Vec<Call>,
    /// Results of calls that ran before the round was appended, by index.
    pub results: Vec<CallResult>,
    /// Usage of the model call.
    pub usage: Usage,
}

/// A call that a model asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its place in the round, from 1.
    pub index: u32,
    /// The provider's own id; some repeat it.
    pub provider_id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model gave them; an empty object where they were no JSON object.
    pub arguments: Value,
    /// Whether the tool writes.
    pub access: Access,
    /// Whether it waits for a decision.
    pub needs_approval: bool,
    /// The rule that asks for the decision; none: no rule does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    /// Why it cannot run at all (unknown tool, arguments that are no JSON or break the tool's schema): its result says
    /// so.
    pub problem: Option<String>,
}

/// Whether a tool writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads only: runs at once.
    ReadOnly,
    /// Writes: may wait for a decision, and its effect happens once.
    ReadWrite,
}

/// The result of a call, as the model receives it. Final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The round of the call.
    pub round: u32,
    /// Its place in the round.
    pub index: u32,
    /// Whether it ran well, failed, or did not run and why.
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

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It ran.
    Ok,
    /// It ran and failed; the content says how.
    Failed,
    /// The user rejected it.
    Rejected,
    /// Its turn was cancelled first.
    Cancelled,
    /// Its approval did not come in time.
    Expired,
    /// Another message took its turn's place.
    Superseded,
    /// Its target changed since it was approved; nothing was written.
    Conflict,
    /// The turn had no rounds left.
    NotRun,
}

impl CallStatus {
    /// Its name.
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

/// The turn waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// The turn.
    pub turn: u32,
    /// The pending round.
    pub round: u32,
    /// From when no decision counts.
    pub expires_at: Timestamp,
    /// The working state at the pause.
    pub working: WorkingState,
    /// The number of the closing event of the stream that ends here.
    pub event: u64,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Decisions that arrived together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// The turn.
    pub turn: u32,
    /// The round.
    pub round: u32,
    /// Each with its call's index.
    pub decided: Vec<(u32, Decision)>,
    /// The approver.
    pub by: UserId,
    /// The time at which expiry was evaluated.
    pub decided_at: Timestamp,
    /// Whether the turn continues through rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

/// A decision on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Decision {
    /// Run it.
    Approve,
    /// Run it with these arguments instead; the history shows them.
    ApproveEdited {
        /// The whole arguments, checked against the tool's schema.
        arguments: Value,
    },
    /// Do not run it.
    Reject {
        /// Reason for the model, in addition to the rejection.
        reason: Option<String>,
    },
}

/// A write call is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The turn.
    pub turn: u32,
    /// The round.
    pub round: u32,
    /// The call's place.
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
    /// The turn.
    pub turn: u32,
    /// The result.
    pub result: CallResult,
}

/// The turn continues under a new owner or as a new attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// The turn.
    pub turn: u32,
    /// The owner from here.
    pub owner: Incarnation,
    /// Its epoch.
    pub epoch: u64,
    /// Why: a takeover, or a new attempt.
    pub why: ResumeCause,
    /// Time of the entry.
    pub at: Timestamp,
}

/// Why a turn is continued.
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
    /// The turn.
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
    /// Another message takes its place.
    Superseded,
}

/// The turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The turn.
    pub turn: u32,
    /// The kind of end.
    pub how: End,
    /// Results, synthetic ones among them, of calls that had none.
    pub results: Vec<CallResult>,
    /// Whether these results are not final: none of their calls was started, and resuming the turn runs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_again: bool,
    /// The working state after the turn.
    pub working: WorkingState,
    /// The sum over its model calls.
    pub usage: Usage,
    /// The number of the closing event.
    pub event: u64,
    /// Time of the entry.
    pub at: Timestamp,
}

/// The kind of a turn's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// The agent is done.
    Completed {
        /// The answer.
        text: String,
        /// The thinking before it.
        thinking: Vec<ThinkingBlock>,
        /// Why it stopped.
        finish: FinishReason,
    },
    /// Something failed.
    Failed {
        /// The error.
        error: Error,
        /// Whether `ResumeTurn` can resume the turn.
        retriable: bool,
    },
    /// The turn was cancelled.
    Cancelled,
    /// No decision came in time.
    Expired,
    /// Another message took its place.
    Superseded,
}

/// Messages that were there before the thread. A long history is split over several such entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The messages, sanitized.
    pub messages: Vec<Message>,
    /// The working state that belongs after them.
    pub working: WorkingState,
    /// Position of the messages. None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<SegmentPosition>,
}

/// The working state of a thread: the model receives it in each round, and it is stored after each turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingState {
    /// The last schema revision that was made.
    pub schema_revid: Option<SchemaRevId>,
    /// The last prompt revision that was made or run.
    pub prompt_revid: Option<PromptRevId>,
    /// The last extraction.
    pub extraction: Option<WorkingExtraction>,
}

/// The extraction that the agent works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingExtraction {
    /// Its id.
    pub id: ExtractionId,
    /// The document that was read.
    pub document: DocumentId,
    /// The prompt that was run.
    pub prompt: PromptRevId,
    /// The data as it is now.
    pub data: Value,
}

/// The changes of a call to the working state. Deleted resources are removed from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingChange {
    /// The schema revision from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_revid: Option<SchemaRevId>,
    /// The prompt revision from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_revid: Option<PromptRevId>,
    /// The extraction from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction: Option<WorkingExtraction>,
    /// A schema that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_schema: Option<SchemaId>,
    /// A prompt that was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_prompt: Option<PromptId>,
    /// A document that was deleted, with its extractions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_document: Option<DocumentId>,
}

impl WorkingChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl WorkingState {
    /// The state after a call's change.
    pub fn apply(&mut self, change: &WorkingChange) {
        if let Some(gone) = &change.deleted_schema {
            self.schema_revid.take_if(|revid| revid.of == *gone);
        }
        if let Some(gone) = &change.deleted_prompt {
            self.prompt_revid.take_if(|revid| revid.of == *gone);
        }
        if let Some(gone) = &change.deleted_document {
            self.extraction.take_if(|extraction| extraction.document == *gone);
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
