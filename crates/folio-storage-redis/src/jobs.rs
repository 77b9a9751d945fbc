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

pub(super) struct RedisJobs {
    connection: Arc<Connection>,
    push: Script,
    claim: Script,
    extend: Script,
    complete: Script,
    waiting: Script,
}

impl RedisJobs {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            push: Script::new(include_str!("lua/jobs_push.lua")),
            claim: Script::new(include_str!("lua/jobs_claim.lua")),
            extend: Script::new(include_str!("lua/jobs_extend.lua")),
            complete: Script::new(include_str!("lua/jobs_complete.lua")),
            waiting: Script::new(include_str!("lua/jobs_waiting.lua")),
            connection,
        }
    }

    fn keys(&self, queue: &str) -> [String; 4] {
        let tag = format!("queue:{queue}");
        ["jobs", "keys", "order", "groups"].map(|name| self.connection.key(&tag, name))
    }
}

#[async_trait]
impl JobStore for RedisJobs {
    async fn push(&self, queue: &str, job: &Job) -> Result<bool> {
        let [jobs, keys, order, groups] = self.keys(queue);
        let max = self.connection.shared().jobs_max;
        let mut call = self.push.key(jobs);
        call.key(keys).key(order).key(groups).arg(&job.key).arg(&job.payload).arg(max).arg(TTL_MS);
        call.arg(&job.group).arg(max.div_ceil(2));
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

    async fn waiting(&self, queue: &str) -> Result<u64> {
        let [_, _, order, _] = self.keys(queue);
        self.connection.run(&self.waiting.key(order)).await
    }
}
