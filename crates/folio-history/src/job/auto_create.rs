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
}
