//! Tool calls in a journal: the calls of a round, the direct call of a turn, and results.

use folio_resources::policy::ApprovalRequirement;
use folio_types::message::Usage;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::working_state::WorkingChange;

/// A direct call as of the acceptance of its turn: checked against the tools, with its repairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedCall {
    /// Name of the tool.
    pub name: String,
    /// Empty object if the client's arguments cannot be used.
    pub arguments: Value,
    pub access: Access,
    /// Reason why the call cannot run, which its result contains. None: the call can run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Repairs that made `arguments` out of those of the client, for its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
}

/// A tool call that a model requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Index in the round, from 1.
    pub index: u32,
    /// Id that the provider assigned; it may repeat.
    pub provider_id: String,
    /// Name of the tool.
    pub name: String,
    /// Empty object if the model's arguments were not a JSON object.
    pub arguments: Value,
    pub access: Access,
    pub needs_approval: bool,
    /// None: no rule of the policy requires a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_requirement: Option<ApprovalRequirement>,
    /// Reason why the call cannot run, which its result contains: an unknown tool, or arguments that are not JSON or
    /// violate the tool's schema. None: the call can run.
    pub problem: Option<String>,
    /// Repairs that made `arguments` out of those that the model sent, for its result. Empty: the model sent them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The tool only reads. Its calls run immediately.
    ReadOnly,
    /// The tool writes. Its calls may wait for a decision and take effect once.
    ReadWrite,
}

/// The final result of a call, as the model receives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    pub round: u32,
    pub index: u32,
    pub status: CallStatus,
    pub content: String,
    #[serde(default, skip_serializing_if = "WorkingChange::is_empty")]
    pub change: WorkingChange,
    /// Usage of the tool's own model calls, regardless of the outcome.
    #[serde(default, skip_serializing_if = "Usage::is_empty")]
    pub usage: Usage,
    /// None: unknown (an old entry).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    Ok,
    /// `content` states the reason.
    Failed,
    /// The approver rejected the call.
    Rejected,
    /// The turn was cancelled before the call ran.
    Cancelled,
    /// The approval expired.
    Expired,
    /// Another message superseded the turn.
    Superseded,
    /// The target changed since the approval; nothing was written.
    Conflict,
    /// The call did not run: the turn ended before (it reached its limit of rounds, or it failed), an earlier call to which
    /// the call refers did not succeed, or the next round repeats the call because its ids need another approval.
    NotRun,
    /// The call was sent to another system, and its reply is lost: its effect may have happened. The call is never repeated.
    Unknown,
}

impl CallStatus {
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
            Self::Unknown => "unknown",
        }
    }
}
