//! The input of jobs that run a prompt on documents.

use folio_types::{BudgetPart, CallId, PromptRevId, Timestamp};
use serde::{Deserialize, Serialize};

/// The input of a job of the kind [`super::EXTRACTION_KIND`]. The subjects of its items are the ids of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractionInput {
    pub prompt: PromptRevId,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
    /// Model if the prompt names none: the model of the conversation. None: the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    /// The tool call that created the job. The items run only if the op row of the call states that it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Credits that the model calls of all items may cost. The owner of the job enforces it. None: no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// The part of the budget of a turn that pays for the job, which a tool call of the turn created. None: the job has a
    /// budget of its own, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_part: Option<BudgetPart>,
    /// None: a user or a tool call started the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag_run: Option<TagRun>,
}

impl ExtractionInput {
    /// Returns the input of a job without options.
    pub fn new(prompt: PromptRevId) -> Self {
        Self {
            prompt,
            model: None,
            fallback_model: None,
            call: None,
            credit_budget: None,
            budget_part: None,
            tag_run: None,
        }
    }
}

/// The write that causes a run of a prompt on a document with a common tag. The item runs once the write is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRun {
    /// Time of the write.
    pub at: Timestamp,
    pub write: TagRunWrite,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagRunWrite {
    /// The text of the document was stored at the time of the write.
    Text,
    /// The document got a tag, with this version.
    Document(u64),
    /// The prompt got a tag or a revision. The job was created after the write.
    Prompt,
}
