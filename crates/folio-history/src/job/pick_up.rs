//! The index of open jobs, and what the sweep does with its rows.

use folio_types::limits::JOB_OPEN_MAX;
use folio_types::{JobId, Liveness, OrgId, Timestamp};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::{JobHeader, JobQueue, JobState};

/// Maximum time between the insertion of a row and the creation of its job.
const CREATION_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);
/// Time for which a row outlives the longest open job.
const MARGIN: SignedDuration = SignedDuration::from_hours(10 * 24);

/// A row of the index of open jobs. It is stored before the job is created, and may be removed only after its job has
/// ended, was deleted, or was not created in time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "StoredRow", into = "StoredRow")]
pub struct OpenJobRow {
    /// Organization of the job. The index spans all organizations, and no request reads it.
    pub org: OrgId,
    pub job: JobId,
    /// Time of the creation. A store that orders the index by time may replace it by a later time.
    pub at: Timestamp,
    /// Time at which the row expires, which is later than the end of the job.
    pub until: Timestamp,
    pub queue: JobQueue,
}

/// The stored form of a row. An older version reads a row of [`JobQueue::Ingestions`] as one of [`JobQueue::Work`], and
/// starts no job of a kind that it does not know: a queue that it does not know would stop its sweep.
#[derive(Serialize, Deserialize)]
struct StoredRow {
    org: OrgId,
    job: JobId,
    at: Timestamp,
    until: Timestamp,
    #[serde(default, skip_serializing_if = "JobQueue::is_default")]
    queue: JobQueue,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_ingestion: bool,
}

impl From<OpenJobRow> for StoredRow {
    fn from(row: OpenJobRow) -> Self {
        let OpenJobRow { org, job, at, until, queue } = row;
        let is_ingestion = queue == JobQueue::Ingestions;
        let queue = if is_ingestion { JobQueue::Work } else { queue };
        Self { org, job, at, until, queue, is_ingestion }
    }
}

impl From<StoredRow> for OpenJobRow {
    fn from(stored: StoredRow) -> Self {
        let StoredRow { org, job, at, until, queue, is_ingestion } = stored;
        let queue = if is_ingestion { JobQueue::Ingestions } else { queue };
        Self { org, job, at, until, queue }
    }
}

impl OpenJobRow {
    pub fn of(header: &JobHeader) -> Self {
        let until = header.open_until().saturating_add(MARGIN).unwrap_or(Timestamp::MAX);
        let queue = header.queue();
        Self { org: header.org().clone(), job: header.id.clone(), at: header.created_at, until, queue }
    }

    fn created_at(&self) -> Timestamp {
        let open_until = self.until.saturating_sub(MARGIN).unwrap_or(Timestamp::MIN);
        open_until.saturating_sub(JOB_OPEN_MAX).unwrap_or(Timestamp::MIN)
    }
}

/// Action that a row requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowAction {
    /// Remove the row: the job ended or does not exist.
    Remove,
    /// Check the row in the next sweep: the job runs or is being created.
    Skip,
    /// Check the row at this time.
    CheckAt(Timestamp),
    /// Start the job.
    Start,
    /// Write [`super::JobCommand::Expire`].
    Expire,
}

/// Returns the action for a row. `header`: the job, read after the row. `owner`: returns the liveness of an incarnation;
/// the caller's own incarnation is dead if no actor runs the job.
pub fn row_action(
    row: &OpenJobRow,
    header: Option<&JobHeader>,
    owner: impl FnOnce(&folio_types::Incarnation) -> Liveness,
    now: Timestamp,
) -> RowAction {
    let Some(header) = header else {
        let is_recent = now.duration_since(row.created_at()) < CREATION_TIMEOUT;
        return if is_recent { RowAction::Skip } else { RowAction::Remove };
    };
    if header.is_ended() {
        return RowAction::Remove;
    }
    if header.open_until() <= now {
        return RowAction::Expire;
    }
    match &header.state {
        JobState::Queued => RowAction::Start,
        JobState::Waiting { retry_at, .. } if *retry_at <= now => RowAction::Start,
        JobState::Waiting { retry_at, .. } => RowAction::CheckAt(*retry_at),
        JobState::Paused => RowAction::CheckAt(header.open_until()),
        JobState::Running => match header.owner.as_ref().map_or(Liveness::Dead, owner) {
            Liveness::Dead => RowAction::Start,
            Liveness::Live | Liveness::Draining | Liveness::Unknown => RowAction::Skip,
        },
        JobState::Completed | JobState::Failed(_) | JobState::Cancelled => RowAction::Remove,
    }
}
