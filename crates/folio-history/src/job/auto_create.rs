//! The input of jobs that make a proposal for a document.

use folio_types::Timestamp;
use serde::{Deserialize, Serialize};

/// The kind of the jobs that make a proposal for a document. Such a job has one item, whose subject is the document.
pub const AUTO_CREATE_KIND: &str = "auto_create";

/// The input of a job of the kind [`AUTO_CREATE_KIND`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoCreateInput {
    /// Time of the write that settles the text of the document. The item runs once the write is stored.
    pub at: Timestamp,
    /// Credits that the model calls of the run may cost, as the upload states. It is not the budget of the job, because a turn does
    /// the work unless the prompt of a similar document is run. None: the setting of the server is the only bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_budget: Option<u64>,
}
