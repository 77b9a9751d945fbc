//! Queues of jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};
use tokio::sync::Notify;

use super::{Context, locked, since};
use folio_storage::{ClaimedJob, Job, JobStore, queue_full};

pub(super) struct MemoryJobs {
    context: Context,
    queues: Mutex<HashMap<String, Queue>>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    /// The highest position of a claimed job.
    position: u64,
    jobs: BTreeMap<u64, Queued>,
    /// Notified of each added job.
    pushed: Arc<Notify>,
}

struct Queued {
    job: Job,
    /// The order of the jobs: one after the previous job of the group, and after the jobs that were claimed before. So
    /// each group has one job per position.
    position: u64,
    attempt: u64,
    /// The worker, and the time of the worker's last heartbeat for the job.
    taken: Option<(Incarnation, Timestamp)>,
}

impl Queue {
    fn of<'a>(&'a mut self, claimed: &ClaimedJob) -> Option<(u64, &'a mut Queued)> {
        let id = claimed.id.parse().ok()?;
        let job = self.jobs.get_mut(&id)?;
        let is_of_worker = job.taken.as_ref().is_some_and(|(worker, _)| *worker == claimed.worker);
        (is_of_worker && job.attempt == claimed.attempt).then_some((id, job))
    }
}

impl MemoryJobs {
    pub(super) fn new(context: Context) -> Self {
        Self { context, queues: Mutex::default() }
    }
}

#[async_trait]
impl JobStore for MemoryJobs {
    async fn push(&self, queue: &str, job: &Job) -> Result<bool> {
        let mut queues = locked(&self.queues);
        let jobs = queues.entry(queue.to_owned()).or_default();
        if jobs.jobs.values().any(|queued| queued.job.key == job.key) {
            return Ok(false);
        }
        let max = self.context.options.jobs_max;
        let of_group = || jobs.jobs.values().filter(|queued| queued.job.group == job.group);
        if jobs.jobs.len() >= max || of_group().count() >= max.div_ceil(2) {
            return Err(queue_full(queue));
        }
        let newest = of_group().map(|queued| queued.position).max().unwrap_or_default();
        let position = newest.max(jobs.position) + 1;
        jobs.next += 1;
        let id = jobs.next;
        jobs.jobs.insert(id, Queued { job: job.clone(), position, attempt: 0, taken: None });
        jobs.pushed.notify_one();
        Ok(true)
    }

    async fn claim(
        &self,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<ClaimedJob>> {
        let now = self.context.now();
        let mut queues = locked(&self.queues);
        let Some(jobs) = queues.get_mut(queue) else { return Ok(Vec::new()) };
        let mut free: Vec<(bool, u64, u64)> = jobs
            .jobs
            .iter()
            .filter(|(_, queued)| queued.taken.as_ref().is_none_or(|(_, at)| since(*at, now) >= abandoned_after))
            .map(|(id, queued)| (queued.taken.is_none(), queued.position, *id))
            .collect();
        free.sort_unstable();
        let mut taken = Vec::new();
        for (_, position, id) in free.into_iter().take(limit) {
            if let Some(queued) = jobs.jobs.get_mut(&id) {
                jobs.position = jobs.position.max(position);
                queued.attempt += 1;
                queued.taken = Some((worker.clone(), now));
                let (job, id, attempt) = (queued.job.clone(), id.to_string(), queued.attempt);
                taken.push(ClaimedJob { job, id, worker: worker.clone(), attempt });
            }
        }
        Ok(taken)
    }

    async fn extend(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool> {
        let now = self.context.now();
        let mut queues = locked(&self.queues);
        let Some((_, queued)) = queues.get_mut(queue).and_then(|jobs| jobs.of(claimed)) else { return Ok(false) };
        queued.taken = Some((claimed.worker.clone(), now));
        Ok(true)
    }

    async fn complete(&self, queue: &str, claimed: &ClaimedJob) -> Result<bool> {
        let mut queues = locked(&self.queues);
        let Some(jobs) = queues.get_mut(queue) else { return Ok(false) };
        let Some((id, _)) = jobs.of(claimed) else { return Ok(false) };
        jobs.jobs.remove(&id);
        Ok(true)
    }

    async fn wait_for_push(&self, queue: &str, limit: Duration) -> Result<bool> {
        let pushed = Arc::clone(&locked(&self.queues).entry(queue.to_owned()).or_default().pushed);
        Ok(tokio::time::timeout(limit, pushed.notified()).await.is_ok())
    }

    async fn waiting(&self, queue: &str) -> Result<u64> {
        let queues = locked(&self.queues);
        let jobs = queues.get(queue).into_iter().flat_map(|queue| queue.jobs.values());
        Ok(u64::try_from(jobs.filter(|queued| queued.taken.is_none()).count()).unwrap_or(u64::MAX))
    }
}
