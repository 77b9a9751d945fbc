//! The input of jobs that ingest documents.

use folio_types::{IngestionMode, Timestamp};
use serde::{Deserialize, Serialize};

/// The write that causes an ingestion. The item runs once the write is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestionCause {
    /// Time of the write.
    pub at: Timestamp,
    /// The version of the document after the write, or of its deletion. None: the write stores the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// The input of a job of the kinds [`INGESTION_KIND`](super::INGESTION_KIND) and
/// [`TEXT_INGESTION_KIND`](super::TEXT_INGESTION_KIND).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestionInput {
    pub mode: IngestionMode,
    /// None: a user started the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<IngestionCause>,
    /// Credits that the model calls of the job may cost. None: the balance of the organization is the only bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}
