//! Job queues with at-least-once delivery, each job to one node at a time, in turn for each group. The effect of a job must be idempotent. Jobs
//! that are lost with the store are derived again from durable state.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Error, Incarnation, Reason, Result};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The deduplication key: a queued or running job with the same key is the same job.
    pub key: String,
    /// The organization, or another group. Groups take turns, and a group may fill half of a queue.
    pub group: String,
    pub payload: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    pub job: Job,
    pub id: String,
    pub worker: Incarnation,
    /// Number of deliveries, this one included.
    pub attempt: u64,
}

/// Returns the error for a job that does not fit into its queue.
pub fn queue_full(queue: &str) -> Error {
    let message = format!("the queue {queue} is full; retry later");
    Error::exhausted(Reason::Overloaded, message).retry_after(Duration::from_secs(5))
}

#[async_trait]
pub trait JobStore: Send + Sync {
    /// Adds a job unless one with its key exists; returns whether it was added. `OVERLOADED` if the queue is full, or if
    /// the group fills half of it.
    async fn push(&self, queue: &str, job: &Job) -> Result<bool>;

    /// Takes at most `limit` jobs: first those whose worker sent no heartbeat for `abandoned_after`, then new ones:
    /// one job of each group in a round, the oldest first. Does not wait for jobs.
    async fn claim(
        &self,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<ClaimedJob>>;

    /// Extends the assignment of a job; returns whether the job still belongs to this worker.
    async fn extend(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool>;

    /// Ends a job; returns whether it still belonged to this worker. If another worker took the job, it is kept.
    async fn complete(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool>;

    /// Waits until a job is added, for at most `limit`; returns true if one was. A job that was added while no worker waited
    /// may end the next wait. A job ends the wait of one worker. A notification may be lost, so workers also claim
    /// periodically.
    async fn wait_for_push(&self, queue: &str, limit: Duration) -> Result<bool>;

    /// Counts the jobs without a worker.
    async fn waiting(&self, queue: &str) -> Result<u64>;
}
