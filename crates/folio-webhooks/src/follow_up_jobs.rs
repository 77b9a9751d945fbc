//! Creates the jobs that follow a write, before the write.

use std::sync::Arc;

use folio_history::job::{JobLimits, NewJob};
use folio_storage::{JobPageStore, JobRecordStore, Stores, create_job, create_job_of_accepted_write};
use folio_types::{JobId, OrgId, Principal, Result, Role, Timestamp, UserId};
use serde_json::Value;

use crate::counters::Counters;
use crate::outbox::is_store_failure;

/// A job with one item.
pub(crate) struct FollowUpJob {
    pub(crate) id: JobId,
    pub(crate) kind: &'static str,
    pub(crate) input: Value,
    /// Subject of the item.
    pub(crate) item: String,
    pub(crate) at: Timestamp,
    /// If true, the write that causes the job is accepted on a full disk, and so is the job. If false, both are refused there.
    pub(crate) uses_reserve: bool,
}

/// Creates jobs within the limits of their organizations. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FollowUpJobs {
    jobs: Arc<dyn JobRecordStore>,
    pages: JobPageStore,
    limits: JobLimits,
    pub(crate) counters: Counters,
}

impl FollowUpJobs {
    pub(crate) fn new(stores: &Stores, limits: JobLimits, counters: Counters) -> Self {
        Self { jobs: Arc::clone(&stores.jobs), pages: stores.job_pages(), limits, counters }
    }

    /// Creates a job that runs with the role of a member for `user`, and returns its id. None: the organization has too many open
    /// jobs, which must not prevent the write.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the caller must not write what causes the job.
    pub(crate) async fn create(&self, org: &OrgId, user: UserId, job: FollowUpJob) -> Result<Option<JobId>> {
        let FollowUpJob { id, kind, input, item, at, uses_reserve } = job;
        let new = NewJob {
            id,
            principal: Principal::new(org.clone(), user, Role::Member),
            kind: kind.to_owned(),
            input,
            items: vec![item.clone()],
            running_max: self.limits.running_time,
            at,
        };
        let (jobs, pages, limits) = (&*self.jobs, &self.pages, &self.limits);
        let created = match uses_reserve {
            true => create_job_of_accepted_write(jobs, pages, limits, new).await,
            false => create_job(jobs, pages, limits, new).await,
        };
        match created {
            Ok(header) => Ok(Some(header.id)),
            Err(error) if is_store_failure(&error) => Err(error),
            Err(error) => {
                self.counters.count_refused_jobs(kind, error.reason.as_str(), 1);
                tracing::warn!(%error, %org, kind, %item, "a write starts no job");
                Ok(None)
            }
        }
    }
}
