//! Prompts: versioned instructions for an extraction.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, PromptId, PromptRevId, SchemaRevId, TagId, UserId};

/// One revision of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRevision {
    /// Its revid: the prompt's id and the version.
    pub revid: PromptRevId,
    /// Its organization.
    pub org: OrgId,
    /// The prompt's name (one for all revisions).
    pub name: String,
    /// The instructions.
    pub content: String,
    /// The schema that answers must match.
    pub schema: Option<SchemaRevId>,
    /// The model that runs it; none: the default of the call.
    pub model: Option<String>,
    /// Tags, without doubles, in the order given.
    pub tags: Vec<TagId>,
    /// Who made the revision.
    pub created_by: UserId,
    /// When.
    pub created_at: Timestamp,
}

/// A prompt as a list shows it: its newest revision and its condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// The prompt's id.
    pub id: PromptId,
    /// Grows with every change, renames too; what a write expects. Not the number of revisions.
    pub version: u64,
    /// The newest revision.
    pub latest: PromptRevision,
}
