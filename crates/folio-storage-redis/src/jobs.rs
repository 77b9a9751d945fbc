//! Queues of jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result};
use redis::Script;

use super::connection::Connection;
use super::milliseconds;
use folio_storage::{ClaimedJob, Job, JobStore, queue_full};

/// Time to live of a queue after its last push or take, in milliseconds.
const TTL_MS: u64 = 7 * 24 * 3_600_000;

pub(super) struct RedisJobs {
    connection: Arc<Connection>,
    push: Script,
    take: Script,
    keep: Script,
    done: Script,
    waiting: Script,
}

impl RedisJobs {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            push: Script::new(include_str!("lua/jobs_push.lua")),
            take: Script::new(include_str!("lua/jobs_take.lua")),
            keep: Script::new(include_str!("lua/jobs_keep.lua")),
            done: Script::new(include_str!("lua/jobs_done.lua")),
            waiting: Script::new(include_str!("lua/jobs_waiting.lua")),
            connection,
        }
    }

    fn keys(&self, queue: &str) -> [String; 2] {
        let tag = format!("queue:{queue}");
        ["jobs", "keys"].map(|name| self.connection.key(&tag, name))
    }
}

#[async_trait]
impl JobStore for RedisJobs {
    async fn push(&self, queue: &str, job: &Job) -> Result<bool> {
        let [jobs, keys] = self.keys(queue);
        let mut call = self.push.key(jobs);
        call.key(keys).arg(&job.key).arg(&job.payload).arg(self.connection.shared().jobs_max).arg(TTL_MS);
        match self.connection.run::<i64>(&call).await? {
            1 => Ok(true),
            0 => Ok(false),
            _ => Err(queue_full(queue)),
        }
    }

    async fn take(
        &self,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<ClaimedJob>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let [jobs, keys] = self.keys(queue);
        let mut call = self.take.key(jobs);
        call.key(keys).arg(worker.as_str()).arg(limit).arg(milliseconds(abandoned_after)).arg(TTL_MS);
        let taken: Vec<(String, String, String, u64)> = self.connection.run(&call).await?;
        let jobs = taken.into_iter().map(|(id, key, payload, attempt)| ClaimedJob {
            job: Job { key, payload },
            id,
            worker: worker.clone(),
            attempt,
        });
        Ok(jobs.collect())
    }

    async fn keep(&self, queue: &str, taken: &ClaimedJob) -> Result<bool> {
        let [jobs, _] = self.keys(queue);
        let mut call = self.keep.key(jobs);
        call.arg(&taken.id).arg(taken.worker.as_str()).arg(taken.attempt);
        self.connection.run(&call).await
    }

    async fn done(&self, queue: &str, taken: &ClaimedJob) -> Result<bool> {
        let [jobs, keys] = self.keys(queue);
        let mut call = self.done.key(jobs);
        call.key(keys).arg(&taken.id).arg(taken.worker.as_str()).arg(taken.attempt).arg(&taken.job.key);
        self.connection.run(&call).await
    }

    async fn waiting(&self, queue: &str) -> Result<u64> {
        let [jobs, _] = self.keys(queue);
        self.connection.run(&self.waiting.key(jobs)).await
    }
}
