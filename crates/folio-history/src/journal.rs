//! The journal of a thread. The history that readers and models see is a fold over its entries; no second copy is
//! stored.
//!
//! Old entries must stay readable after every change; the golden files of `folio-storage` test this.

use folio_resources::CollectionId;
use folio_resources::policy::Policy;
use folio_types::message::{FinishReason, Message, MessageImage, ThinkingBlock, Usage};
use folio_types::op::{Expected, Target};
use folio_types::{Digest, Error, Incarnation, PromptRevId, RequestId, Role, SchemaRevId, TagId, UserId};
use jiff::Timestamp;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use crate::call::{AcceptedCall, Access, Call, CallResult, CallStatus};
pub use crate::graph::{NodeEnd, RoundNode, TurnNode, TurnRoutes};
pub use crate::task::{Group, GroupTask};
pub use crate::turn_profile::{AnswerType, TurnProfile};
pub use crate::working_state::{WorkingChange, WorkingExtraction, WorkingState};

/// `turn` is the number of the turn in its thread, from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry", remote = "Self")]
pub enum Entry {
    Accepted(Box<Accepted>),
    /// The model's answer, with the results of the calls that needed no intent.
    Round(Box<Round>),
    /// The turn waits for decisions on the calls of its newest round.
    Paused(Paused),
    /// Decisions of one request, stored before any call runs.
    Decisions(Decisions),
    /// A write call is about to start.
    Intent(Intent),
    /// A call of `run_tasks` is about to start its child turns. The turn waits until they have ended.
    Group(Box<Group>),
    Outcome(Outcome),
    /// A new owner, or a retry after a failure, continues the turn.
    Resumed(Resumed),
    /// The turn is ending with open intents or an open group: the next owner completes the end and runs no further call.
    Closing(Closing),
    Ended(Box<Ended>),
    /// A summary of messages that left the window of the model. Stored as an outcome of [`SUMMARY_ROUND`], which has no call: a
    /// version without summaries finds no call for the outcome, and ignores it.
    #[serde(skip)]
    Summary(Summary),
    /// Messages that precede the thread's turns: of a fork, or of the request for an ephemeral thread.
    Imported(Imported),
}

/// Number of the round of a summary, whose model call precedes the first round.
pub const SUMMARY_ROUND: u32 = 0;

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Summary(summary) => {
                let stored = summary.stored().map_err(S::Error::custom)?;
                Self::serialize(&Self::Outcome(stored), serializer)
            }
            entry => Self::serialize(entry, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entry = Self::deserialize(deserializer)?;
        let summary = match &entry {
            Self::Outcome(outcome) if outcome.result.round == SUMMARY_ROUND => {
                serde_json::from_str(&outcome.result.content).ok()
            }
            _ => None,
        };
        Ok(summary.map_or(entry, Self::Summary))
    }
}

impl Entry {
    /// None: the entry belongs to no turn.
    pub fn turn(&self) -> Option<u32> {
        match self {
            Self::Accepted(accepted) => Some(accepted.turn),
            Self::Round(round) => Some(round.turn),
            Self::Paused(paused) => Some(paused.turn),
            Self::Decisions(decisions) => Some(decisions.turn),
            Self::Intent(intent) => Some(intent.turn),
            Self::Group(group) => Some(group.turn),
            Self::Outcome(outcome) => Some(outcome.turn),
            Self::Resumed(resumed) => Some(resumed.turn),
            Self::Closing(closing) => Some(closing.turn),
            Self::Ended(ended) => Some(ended.turn),
            Self::Summary(summary) => Some(summary.turn),
            Self::Imported(_) => None,
        }
    }

    /// Returns true if the entry starts a segment of the history: a turn or imported messages. The entries up to the
    /// next such entry belong to the segment.
    pub fn starts_segment(&self) -> bool {
        matches!(self, Self::Accepted(_) | Self::Imported(_))
    }

    /// None: the entry starts no segment, or its position is unknown.
    pub fn position(&self) -> Option<&SegmentPosition> {
        match self {
            Self::Accepted(accepted) => accepted.position.as_ref(),
            Self::Imported(imported) => imported.position.as_ref(),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub turn: u32,
    /// Idempotency key of the chat.
    pub request: RequestId,
    /// Digest of the request's content, to detect another request with the same id.
    pub digest: Digest,
    /// The requester.
    pub user: UserId,
    /// Role of the request. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    pub text: String,
    /// The images of the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    pub mentions: Vec<Mention>,
    pub options: TurnOptions,
    /// Number of user and final assistant messages to keep; later ones are dropped. None: all.
    pub truncate_to: Option<u32>,
    /// Working state at the start of the turn.
    pub working: WorkingState,
    /// None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<SegmentPosition>,
    pub at: Timestamp,
}

impl Accepted {
    /// Creates the entry of a turn with default options in a thread without a working state.
    pub fn new(turn: u32, request: RequestId, user: UserId, text: &str, at: Timestamp) -> Self {
        Self {
            turn,
            digest: Digest::of(request.as_str().as_bytes()),
            request,
            user,
            role: None,
            text: text.to_owned(),
            images: Vec::new(),
            mentions: Vec::new(),
            options: TurnOptions::default(),
            truncate_to: None,
            working: WorkingState::default(),
            position: None,
            at,
        }
    }
}

/// Position of a segment among the messages that were visible when it was appended, after its truncation. Positions let
/// a reader find any message in a logarithmic number of reads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SegmentPosition {
    /// Number of visible messages before the segment.
    pub messages: u32,
    /// Number of user and final assistant messages before the segment.
    pub counted: u32,
    /// Sequence numbers of the entries that start the segments 1, 2, 4, 8, … before this one, as far as they exist. The
    /// difference between this position and that of the first of them is the number of its visible messages.
    pub below: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnOptions {
    /// Resolved when the turn was accepted.
    pub model: String,
    /// If true, calls run without approval unless `policy` requires one.
    pub auto_approve: bool,
    /// Tools whose calls run without approval unless `policy` requires one.
    pub auto_approved_tools: Vec<String>,
    /// Seconds that a pause waits for decisions.
    pub approval_ttl_seconds: u32,
    /// Maximum number of model calls of the turn.
    pub rounds_max: u32,
    /// Rules of the organization's policy that may apply to the turn, as of its acceptance.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<TurnProfile>,
    /// Credits that the request permits the turn to use. None: no limit by the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// The call that the turn runs instead of model calls. None: the turn calls the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_call: Option<Box<AcceptedCall>>,
    /// True if messages that left the window are summarized before the first model call of the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summarizes: bool,
}

/// A reference in a message, resolved on the server within the organization.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "id")]
pub enum Mention {
    Schema(SchemaRevId),
    Prompt(PromptRevId),
    Tag(TagId),
    Collection(CollectionId),
}

/// One model call and the tool calls that it requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub turn: u32,
    /// Counted from 1.
    pub round: u32,
    /// Model that answered.
    pub model: String,
    pub text: String,
    pub thinking: Vec<ThinkingBlock>,
    /// In order; the index of a call is its position, from 1.
    pub calls: Vec<Call>,
    /// Results of calls that ran before the round was appended, sorted by index.
    pub results: Vec<CallResult>,
    /// Usage of the model call.
    pub usage: Usage,
    /// Message by which the model corrects the answer `text`, which violates the answer type of the turn. None: the round
    /// has calls or ends a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
    /// The node of the turn's graph that made the round. None: the turn has no graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<RoundNode>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub turn: u32,
    pub round: u32,
    /// Time from which decisions are refused.
    pub expires_at: Timestamp,
    pub working: WorkingState,
    /// Number of the stream's closing event.
    pub event: u64,
    pub at: Timestamp,
}

/// Decisions of one request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    pub turn: u32,
    /// Counted from 1.
    pub round: u32,
    /// Decisions with the index of their call.
    pub decided: Vec<(u32, Decision)>,
    /// The approver.
    pub by: UserId,
    /// Role of the approver's request. None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// User that created the approver's token for the approver. None: as for [`Principal`](folio_types::Principal).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_creator: Option<UserId>,
    /// Time for which expiry was evaluated.
    pub decided_at: Timestamp,
    /// If true, the turn continues through later rounds in which no call needs approval.
    pub continue_auto_approved: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Decision {
    /// The call runs.
    Approve,
    /// The call runs with these complete arguments, which also replace the model's in the history. They are validated
    /// against the tool's schema.
    ApproveEdited { arguments: Value },
    /// The call does not run. The model receives the rejection and the reason.
    Reject { reason: Option<String> },
}

/// A write call is about to start. Recovery repeats the write with the recorded values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub turn: u32,
    /// Counted from 1.
    pub round: u32,
    /// Index of the call in the round, from 1.
    pub index: u32,
    /// Resource that the call changes.
    pub target: Target,
    /// Version that the write expects, at execution and in recovery.
    pub expected: Expected,
    /// Arguments in which ids replace the references ([`crate::reference`]). None: the arguments contain no reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// Other values that the tool resolved (ids of names), so that recovery uses the same ones.
    #[serde(default)]
    pub resolved: Value,
    /// None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The outcome of a call that had an intent or belongs to an approved round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub turn: u32,
    pub result: CallResult,
}

/// The turn continues under a new owner or as a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    pub turn: u32,
    pub owner: Incarnation,
    pub epoch: u64,
    #[serde(rename = "why")]
    pub cause: ResumeCause,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumeCause {
    /// The previous owner is dead.
    Takeover,
    /// The turn had failed retriably, and a request resumed it.
    Retry,
    /// The turn waited for decisions, and its owner loaded the thread again after an eviction from memory. Not an attempt:
    /// no work was lost, and the event numbers continue.
    Reload,
}

/// The turn is ending; intents or a group are open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    pub turn: u32,
    #[serde(rename = "why")]
    pub cause: ClosingCause,
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosingCause {
    Cancelled,
    /// Another message supersedes the turn.
    Superseded,
    /// The time for which the turn may wait for its group has passed.
    Expired,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub turn: u32,
    #[serde(rename = "how")]
    pub end: End,
    /// Results of calls that had none, including synthetic results.
    pub results: Vec<CallResult>,
    /// If true, the results are not final: none of their calls started, and resuming the turn runs them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_again: bool,
    /// Working state after the turn.
    pub working: WorkingState,
    /// Usage of all model calls of the turn.
    pub usage: Usage,
    /// Number of the closing event.
    pub event: u64,
    pub at: Timestamp,
}

impl Ended {
    /// Creates the end of a turn without results and working state.
    pub fn new(turn: u32, end: End, event: u64, at: Timestamp) -> Self {
        let (working, usage) = (WorkingState::default(), Usage::default());
        Self { turn, end, results: Vec::new(), runs_again: false, working, usage, event, at }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "end")]
pub enum End {
    /// The model answered. `thinking` precedes the answer.
    Completed { text: String, thinking: Vec<ThinkingBlock>, finish: FinishReason },
    /// The turn failed. `retriable`: `ResumeTurn` can resume the turn.
    Failed { error: Error, retriable: bool },
    /// A user cancelled the turn.
    Cancelled,
    /// The approval, or the time for a group, expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
}

/// A summary of the first messages of a thread, which models receive instead of these messages. It contains the summary before
/// it. A truncation to fewer messages drops it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The turn before whose first model call the summary was made. 0: a fork has copied the summary of its source.
    pub turn: u32,
    /// The first message that the summary before it does not contain, counted as in `Message.count` of the API, from 1.
    pub from: u32,
    /// The last message that the summary contains, counted likewise.
    pub to: u32,
    /// Number of visible messages that the summary contains.
    pub messages: u32,
    pub text: String,
    /// Usage of the model call.
    pub usage: Usage,
    pub at: Timestamp,
}

impl Summary {
    /// Returns the stored form: an outcome whose content is the JSON of the summary.
    fn stored(&self) -> serde_json::Result<Outcome> {
        let result = CallResult {
            round: SUMMARY_ROUND,
            index: 0,
            status: CallStatus::Ok,
            content: serde_json::to_string(self)?,
            change: WorkingChange::default(),
            usage: Usage::default(),
            at: Some(self.at),
        };
        Ok(Outcome { turn: self.turn, result })
    }
}

/// Messages that precede the thread's turns. A long history is split into several such entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Sanitized: valid for every provider.
    pub messages: Vec<Message>,
    /// Working state after these messages.
    pub working: WorkingState,
    /// None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<SegmentPosition>,
}
