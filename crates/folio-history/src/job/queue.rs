//! The queues of jobs.

use std::time::Duration;

use folio_types::limits::{DELIVERY_RETENTION, INGESTION_RETENTION, JOB_RETENTION};
use serde::{Deserialize, Serialize};

/// The kind of the jobs that deliver an event to a webhook endpoint. Such a job has one item, whose subject is the endpoint.
pub const DELIVERY_KIND: &str = "webhook_delivery";

/// The kind of the jobs that run a prompt on documents. The subjects of the items are the ids of the documents.
pub const EXTRACTION_KIND: &str = "extraction";

/// The kind of the jobs that users start to ingest documents. The subjects of the items are the ids of the documents.
pub const INGESTION_KIND: &str = "ingestion";

/// The kind of the jobs that ingest a document because its text became ready. Such a job has one item, whose subject is the
/// document.
pub const TEXT_INGESTION_KIND: &str = "text_ingestion";

/// The kind of the jobs that build the index of an organization from the stored passages.
pub const INDEX_REBUILD_KIND: &str = "index_rebuild";

/// The kind of the jobs that compute vectors of stored passages, because the organization chose another embedding model.
pub const REEMBEDDING_KIND: &str = "reembedding";

/// The queue of a job, which follows from its kind. Each queue has its own list, its own running slots and its own
/// retention, so that neither delays or shows the jobs of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobQueue {
    /// Jobs that users start, see and control.
    #[default]
    Work,
    /// Deliveries to webhook endpoints.
    Deliveries,
    /// Ingestions of texts that became ready, and the maintenance of the index.
    Ingestions,
}

impl JobQueue {
    pub const ALL: [Self; 3] = [Self::Work, Self::Deliveries, Self::Ingestions];

    pub fn of(kind: &str) -> Self {
        match kind {
            DELIVERY_KIND => Self::Deliveries,
            TEXT_INGESTION_KIND | INDEX_REBUILD_KIND | REEMBEDDING_KIND => Self::Ingestions,
            _ => Self::Work,
        }
    }

    /// Returns the name of the stored list of the queue's jobs, and of the jobs in errors.
    pub fn list(self) -> &'static str {
        match self {
            Self::Work => super::KIND,
            Self::Deliveries => DELIVERY_KIND,
            Self::Ingestions => TEXT_INGESTION_KIND,
        }
    }

    /// Returns the name of the running slots, and of the queue in hints and metrics.
    pub fn slots(self) -> &'static str {
        match self {
            Self::Work => "jobs",
            Self::Deliveries => "deliveries",
            Self::Ingestions => "ingestions",
        }
    }

    /// Returns the time for which the record of an ended job is kept.
    pub fn retention(self) -> Duration {
        match self {
            Self::Work => JOB_RETENTION,
            Self::Deliveries => DELIVERY_RETENTION,
            Self::Ingestions => INGESTION_RETENTION,
        }
    }

    /// Returns true for the queue of rows that do not name a queue.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
