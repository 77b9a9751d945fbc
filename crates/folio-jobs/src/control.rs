//! Creates jobs and changes them for users, in any process. The owner of a job finds such a change at its next write.

use std::sync::Arc;

use folio_history::job::{
    ItemOutcome, JobCommand, JobFilter, JobHeader, JobLimits, JobPage, JobQueue, JobWrite, JobWritten, KIND, NewJob,
};
use folio_storage::{JobPageStore, JobRecordStore, Stores, create_job};
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::page::{Page, PageRequest};
use folio_types::{Environment, Error, JobId, OrgId, Principal, Reason, Result};
use serde_json::Value;

use crate::hints::JobHints;

/// Maximum number of attempts of a command that meets writes of the owner.
const ATTEMPTS: u32 = 10;

/// A job to create.
#[derive(Debug, Clone)]
pub struct JobRequest {
    pub id: JobId,
    pub principal: Principal,
    /// Name of the kind.
    pub kind: String,
    pub input: Value,
    /// Subjects of the items, in order.
    pub items: Vec<String>,
}

/// Creates, reads and changes jobs. Cheap to clone.
#[derive(Clone)]
pub struct JobControl {
    store: Arc<dyn JobRecordStore>,
    pages: JobPageStore,
    hints: JobHints,
    environment: Arc<dyn Environment>,
    limits: JobLimits,
}

impl std::fmt::Debug for JobControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobControl").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl JobControl {
    pub fn new(stores: &Stores, hints: JobHints, environment: Arc<dyn Environment>, limits: JobLimits) -> Self {
        Self { store: Arc::clone(&stores.jobs), pages: stores.job_pages(), hints, environment, limits }
    }

    pub fn limits(&self) -> JobLimits {
        self.limits
    }

    pub fn hints(&self) -> &JobHints {
        &self.hints
    }

    /// Creates a job, and returns the header that is then stored. Idempotent by the id.
    ///
    /// # Errors
    /// `QUEUE_FULL`; `INVALID_FIELD` or `TOO_LARGE` of the items or the input.
    pub async fn create(&self, request: JobRequest) -> Result<JobHeader> {
        let JobRequest { id, principal, kind, input, items } = request;
        let (running_max, at) = (self.limits.running_time, self.environment.now());
        let new = NewJob { id, principal, kind, input, items, running_max, at };
        let created = create_job(&*self.store, &self.pages, &self.limits, new).await?;
        self.hints.push(created.queue(), created.org(), &created.id).await;
        Ok(created)
    }

    /// Returns a job that users control.
    ///
    /// # Errors
    /// `NOT_FOUND`, also for a job of another organization, and for a delivery.
    pub async fn find(&self, org: &OrgId, id: &JobId) -> Result<JobHeader> {
        let found = self.store.header(org, id).await?.filter(|found| found.queue() == JobQueue::Work);
        found.ok_or_else(|| Error::not_found(KIND, id))
    }

    /// Returns false if a job was not changed since its header was read. Does not read the header.
    pub async fn may_have_changed(&self, known: &JobHeader) -> Result<bool> {
        Ok(self.store.fence(known.org(), &known.id).await? != Some(known.fence()))
    }

    /// Returns the outcomes of the items of a page, in the order of the items. `after`: the number of items before the page.
    pub async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32) -> Result<Vec<ItemOutcome>> {
        let last = after.saturating_add(u32::try_from(JOB_PAGE_ITEMS).unwrap_or(u32::MAX));
        let mut found = self.store.outcomes(org, id, after, JOB_PAGE_ITEMS).await?;
        found.retain(|outcome| outcome.item <= last);
        Ok(found)
    }

    /// Returns pages of a job's items, in the order of `numbers`, each a number of a page from 0.
    pub async fn pages(&self, job: &JobHeader, numbers: &[u32]) -> Result<Vec<JobPage>> {
        self.pages.pages(job, numbers).await
    }

    pub async fn list(&self, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>> {
        self.store.list(org, filter, page).await
    }

    /// Executes a command of a user, and returns the header that is then stored. A command that was already executed
    /// changes nothing.
    ///
    /// # Errors
    /// `NOT_FOUND`; `JOB_ENDED`; `VERSION_CONFLICT` if the owner writes too often meanwhile.
    pub async fn execute(&self, org: &OrgId, id: &JobId, command: JobCommand) -> Result<JobHeader> {
        let is_start = command == JobCommand::Resume;
        for _ in 0..ATTEMPTS {
            let before = self.find(org, id).await?;
            let Some(after) = before.after(command.clone(), self.environment.now())? else { return Ok(before) };
            let write = JobWrite { batch: self.environment.random(), before, after, outcome: None };
            if let JobWritten::Done(written) = self.write(write).await? {
                if is_start {
                    self.hints.push(JobQueue::Work, org, id).await;
                }
                return Ok(*written);
            }
        }
        let message = format!("the job {id} was changed concurrently too often; retry");
        Err(Error::version_conflict(message))
    }

    /// Repeats a write whose result is unknown once. The store executes it once.
    async fn write(&self, write: JobWrite) -> Result<JobWritten> {
        match self.store.write(write.clone()).await {
            Err(error) if error.reason == Reason::StoreUnavailable => self.store.write(write).await,
            written => written,
        }
    }
}
