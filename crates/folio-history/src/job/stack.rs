//! The inputs of jobs that fill the rows of stacks.

use folio_types::{StackId, Timestamp};
use serde::{Deserialize, Serialize};

use super::TagRun;

/// The kind of the jobs that fill rows. The subjects of the items are the ids of documents.
pub const STACK_FILL_KIND: &str = "stack_fill";
/// The kind of the jobs that create a job of the kind [`STACK_FILL_KIND`] after a change of a stack. Such a job has one item,
/// whose subject is the stack.
pub const STACK_PLAN_KIND: &str = "stack_plan";

/// The input of a job of the kind [`STACK_FILL_KIND`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFillInput {
    pub stack: StackId,
    /// None: the model of the stack, or the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Credits that the model calls of all items may cost. None: no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// The write that makes a document a member of the stack. The item runs once the write is stored. None: a user or a change
    /// of the stack started the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<TagRun>,
}

/// The input of a job of the kind [`STACK_PLAN_KIND`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackPlanInput {
    /// The version of the stack after the change. The item runs once this version is stored.
    pub version: u64,
    /// The time of the change.
    pub at: Timestamp,
}
