//! Queues of jobs: each is carried out at least once, by one node at a time. What a job does must bear a repetition; jobs
//! that are lost with the store are found again from the durable ones.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result};
use serde::{Deserialize, Serialize};

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What it is about: a job of the same key that has not ended is the same job.
    pub key: String,
    /// What its worker needs.
    pub payload: String,
}

/// A job in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenJob {
    /// The job.
    pub job: Job,
    /// Its place in the queue.
    pub id: String,
    /// Who has it.
    pub worker: Incarnation,
    /// How often it was taken, this time included.
    pub attempt: u64,
}

/// Queues by name.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Adds a job unless one of its key is there; gives whether it was added. `OVERLOADED` where the queue is full.
    async fn push(&self, queue: &str, job: &Job) -> Result<bool>;

    /// Takes at most `limit` jobs: first those whose worker has shown nothing of itself for `abandoned_after`, then new ones.
    /// It does not wait.
    async fn take(
        &self,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<TakenJob>>;

    /// Says that a job is still being worked on; gives whether it is still this worker's.
    async fn keep(&self, queue: &str, taken: &TakenJob) -> Result<bool>;

    /// Ends a job; gives whether it was still this worker's. One that somebody else took since is left to them.
    async fn done(&self, queue: &str, taken: &TakenJob) -> Result<bool>;

    /// How many jobs nobody has.
    async fn waiting(&self, queue: &str) -> Result<u64>;
}
