//! Jobs: headers and outcomes of items, and the index of open jobs. A job has nothing in common with the jobs of a queue
//! ([`crate::JobStore`]), which are hints.

use async_trait::async_trait;
use folio_history::job::{
    ItemOutcome, JobFilter, JobHeader, JobLimits, JobQueue, JobWrite, JobWritten, NewJob, OpenJobRow,
};
use folio_history::thread::Fence;
use folio_types::limits::JOB_OUTCOME_BYTES;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, JobId, OrgId, Reason, Result, Timestamp};

use super::{Job, JobPageStore, JobStore};
use crate::value::encode;

/// Name of the queue of hints of jobs that can start.
pub const JOB_HINTS: &str = "jobs";

#[async_trait]
pub trait JobRecordStore: Send + Sync {
    /// Creates a job, with its row in the index of open jobs, unless a job with its id exists; returns the stored header.
    /// The row is durable before the header is. `NOT_FOUND` if a job with this id was deleted. A job may use the reserve of a full
    /// disk: [`create_job`] checks the space for new work.
    async fn create(&self, header: JobHeader) -> Result<JobHeader>;

    /// Inserts the row of a job that will be created into the index of open jobs, so that the sweep removes what was stored
    /// for the job if its creation does not follow.
    async fn announce(&self, row: OpenJobRow) -> Result<()>;

    async fn header(&self, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>>;

    /// Returns the fence of the header of a live job without reading the header. A poll reads the header only if the fence
    /// differs from the known one. After a downgrade, the fence may be that of an earlier header until the next write.
    async fn fence(&self, org: &OrgId, id: &JobId) -> Result<Option<Fence>>;

    /// Replaces the header under the fence of `before`, and stores the outcome, atomically. `NOT_FOUND` if the job was
    /// deleted; `TOO_LARGE` for the outcome; any other error leaves the result unknown. The same write may be repeated,
    /// and is executed once.
    async fn write(&self, write: JobWrite) -> Result<JobWritten>;

    /// Returns at most `limit` outcomes of items with numbers above `after`, in order.
    async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32, limit: usize) -> Result<Vec<ItemOutcome>>;

    async fn list(&self, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>>;

    /// Removes a job with its outcomes. Idempotent: a missing job is no error.
    async fn delete(&self, org: &OrgId, id: &JobId) -> Result<()>;

    /// Returns at most `limit` jobs of all organizations whose `expires_at` has passed: a system index that no request
    /// reads. Unreadable jobs may be among them: the caller skips them, and they stay in the index.
    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, JobId)>>;

    /// Returns at most `limit` rows of open jobs of all organizations after `after` (None: from the start) in a fixed
    /// order. Jobs that have ended may have rows.
    async fn open(&self, after: Option<&OpenJobRow>, limit: usize) -> Result<Vec<OpenJobRow>>;

    /// Removes rows that [`Self::open`] returned. A row that the store moved to another time may stay; the next scan
    /// returns it. The caller has read that each job has ended, was deleted, or was not created in time.
    async fn remove_open(&self, rows: &[OpenJobRow]) -> Result<()>;

    /// Rewrites old rows, so that scans read few tombstones of removed rows. The sweep calls the function after each scan of the whole
    /// index; concurrent calls do no harm.
    async fn compact_open(&self) -> Result<()>;
}

/// Creates a job within the limits of its organization, and returns the header that is then stored. Idempotent by the id.
///
/// # Errors
/// `QUEUE_FULL`; `OVERLOADED` while the disk of the store has too little free space; `INVALID_FIELD` or `TOO_LARGE` of the items or
/// the input; those of [`JobRecordStore::create`].
pub async fn create_job(
    store: &dyn JobRecordStore,
    pages: &JobPageStore,
    limits: &JobLimits,
    new: NewJob,
) -> Result<JobHeader> {
    create(store, pages, limits, (new, DiskUse::LeavesReserve)).await
}

/// Creates a job as [`create_job`] does, also on a full disk: the job follows a write that is accepted there, such as a deletion.
///
/// # Errors
/// Those of [`create_job`], except for the free space.
pub async fn create_job_of_accepted_write(
    store: &dyn JobRecordStore,
    pages: &JobPageStore,
    limits: &JobLimits,
    new: NewJob,
) -> Result<JobHeader> {
    create(store, pages, limits, (new, DiskUse::UsesReserve)).await
}

/// Use of the free space that new work must leave on the disk of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskUse {
    LeavesReserve,
    UsesReserve,
}

async fn create(
    store: &dyn JobRecordStore,
    pages: &JobPageStore,
    limits: &JobLimits,
    (new, disk_use): (NewJob, DiskUse),
) -> Result<JobHeader> {
    let org = new.principal.org.clone();
    if let Some(stored) = store.header(&org, &new.id).await? {
        return Ok(stored);
    }
    if disk_use == DiskUse::LeavesReserve {
        pages.check_space().await?;
    }
    let is_open = JobFilter { queue: JobQueue::of(&new.kind), is_open: Some(true), ..JobFilter::default() };
    let first = PageRequest { size: 1, ..PageRequest::default() };
    limits.admit(store.list(&org, &is_open, &first).await?.total)?;
    let (header, rest) = new.with_pages()?;
    if !rest.is_empty() {
        store.announce(OpenJobRow::of(&header)).await?;
        pages.create(&header, &rest).await?;
    }
    store.create(header).await
}

/// Adds a hint of a job that can start to the queue of all nodes, so that a node starts the job before its next sweep. If
/// the queue is full or unavailable, the next sweep finds the job.
pub async fn hint_job(hints: &dyn JobStore, queue: JobQueue, org: &OrgId, job: &JobId) {
    let payload = if queue == JobQueue::Work { "" } else { queue.slots() };
    let hint = Job { key: format!("{org} {job}"), group: org.to_string(), payload: payload.to_owned() };
    if let Err(error) = hints.push(JOB_HINTS, &hint).await {
        tracing::debug!(%error, %job, "a job has no hint; the next sweep finds it");
    }
}

/// Returns the job of a hint. None: a process of another version wrote the hint.
pub fn hinted_job(hint: &Job) -> Option<(OrgId, JobId)> {
    let (org, job) = hint.key.split_once(' ')?;
    Some((org.parse().ok()?, job.parse().ok()?))
}

/// Returns the queue of a hinted job.
pub fn hinted_queue(hint: &Job) -> JobQueue {
    JobQueue::ALL.into_iter().find(|queue| queue.slots() == hint.payload).unwrap_or_default()
}

/// Encodes an outcome. `TOO_LARGE` above [`JOB_OUTCOME_BYTES`].
pub fn encode_outcome(outcome: &ItemOutcome) -> Result<Vec<u8>> {
    let encoded = encode(outcome)?;
    if encoded.len() > JOB_OUTCOME_BYTES {
        let (item, bytes) = (outcome.item, encoded.len());
        let message = format!("the outcome of item {item} has {bytes} bytes, at most {JOB_OUTCOME_BYTES} are allowed");
        return Err(Error::invalid(Reason::TooLarge, message));
    }
    Ok(encoded)
}
