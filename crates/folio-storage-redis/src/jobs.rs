//! Queues of jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result};
use redis::Script;

use super::connection::Connection;
use super::milliseconds;
use folio_storage::{ClaimedJob, Job, JobStore, queue_full};

/// Time to live of a queue after its last push or claim, in milliseconds.
const TTL_MS: u64 = 7 * 24 * 3_600_000;
/// Maximum number of notifications that wait for a worker.
const NOTIFICATIONS_MAX: u64 = 16;
/// Bounds of a wait. Redis waits without end for zero seconds.
const WAIT_MIN: Duration = Duration::from_millis(10);
pub(super) const WAIT_MAX: Duration = Duration::from_secs(1);

pub(super) struct RedisJobs {
    connection: Arc<Connection>,
    /// The connection of calls that wait, because they delay the next calls of their connection.
    waits: Arc<Connection>,
    push: Script,
    claim: Script,
    extend: Script,
    complete: Script,
    waiting: Script,
}

impl RedisJobs {
    /// `waits`: a connection of its own, whose calls may take [`WAIT_MAX`] longer.
    pub(super) fn new(connection: Arc<Connection>, waits: Arc<Connection>) -> Self {
        Self {
            push: Script::new(include_str!("lua/jobs_push.lua")),
            claim: Script::new(include_str!("lua/jobs_claim.lua")),
            extend: Script::new(include_str!("lua/jobs_extend.lua")),
            complete: Script::new(include_str!("lua/jobs_complete.lua")),
            waiting: Script::new(include_str!("lua/jobs_waiting.lua")),
            connection,
            waits,
        }
    }

    fn keys(&self, queue: &str) -> [String; 4] {
        ["jobs", "keys", "order", "groups"].map(|name| self.key(queue, name))
    }

    fn key(&self, queue: &str, name: &str) -> String {
        self.connection.key(&format!("queue:{queue}"), name)
    }
}

#[async_trait]
impl JobStore for RedisJobs {
    async fn push(&self, queue: &str, job: &Job) -> Result<bool> {
        let [jobs, keys, order, groups] = self.keys(queue);
        let max = self.connection.shared().jobs_max;
        let mut call = self.push.key(jobs);
        call.key(keys).key(order).key(groups).key(self.key(queue, "pushed"));
        call.arg(&job.key).arg(&job.payload).arg(max).arg(TTL_MS);
        call.arg(&job.group).arg(max.div_ceil(2)).arg(NOTIFICATIONS_MAX);
        match self.connection.run::<i64>(&call).await? {
            1 => Ok(true),
            0 => Ok(false),
            _ => Err(queue_full(queue)),
        }
    }

    async fn claim(
        &self,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<ClaimedJob>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let [jobs, keys, order, groups] = self.keys(queue);
        let mut call = self.claim.key(jobs);
        call.key(keys).key(order).key(groups);
        call.arg(worker.as_str()).arg(limit).arg(milliseconds(abandoned_after)).arg(TTL_MS);
        let taken: Vec<(String, String, String, String, u64)> = self.connection.run(&call).await?;
        let jobs = taken.into_iter().map(|(id, key, group, payload, attempt)| ClaimedJob {
            job: Job { key, group, payload },
            id,
            worker: worker.clone(),
            attempt,
        });
        Ok(jobs.collect())
    }

    async fn extend(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool> {
        let [jobs, ..] = self.keys(queue);
        let mut call = self.extend.key(jobs);
        call.arg(&claimed.id).arg(claimed.worker.as_str()).arg(claimed.attempt);
        self.connection.run(&call).await
    }

    async fn complete(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool> {
        let [jobs, keys, _, groups] = self.keys(queue);
        let mut call = self.complete.key(jobs);
        call.key(keys).key(groups).arg(&claimed.id).arg(claimed.worker.as_str()).arg(claimed.attempt);
        call.arg(&claimed.job.key).arg(&claimed.job.group);
        self.connection.run(&call).await
    }

    async fn wait_for_push(&self, queue: &str, limit: Duration) -> Result<bool> {
        let mut call = redis::cmd("BLPOP");
        call.arg(self.key(queue, "pushed")).arg(limit.clamp(WAIT_MIN, WAIT_MAX).as_secs_f64());
        let taken: Option<(String, String)> = self.waits.query(&call).await?;
        Ok(taken.is_some())
    }

    async fn waiting(&self, queue: &str) -> Result<u64> {
        let [_, _, order, _] = self.keys(queue);
        self.connection.run(&self.waiting.key(order)).await
    }
}
