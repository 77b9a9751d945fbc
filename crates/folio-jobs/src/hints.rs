//! Hints of jobs that can start, so that a node starts them before its next sweep.
//!
//! The processes of a cluster share a queue of hints in Redis. Any node takes a hint and starts the job, even if another
//! node would sweep the job: the write of the start is conditional on the fence of the job's header, so that only one node
//! starts it. Each hint wakes one node that waits, and a node waits only while it has capacity for a further job. A lost
//! notification delays a job by up to [`POLL_INTERVAL`], a lost hint until the next sweep.

use std::sync::Arc;
use std::time::Duration;

use folio_history::job::JobQueue;
use folio_storage::{JOB_HINTS, JobStore, hint_job, hinted_job, hinted_queue};
use folio_types::{Incarnation, JobId, OrgId, Result};
use ractor::ActorRef;

use crate::shared::{Key, Shared};
use crate::supervisor::SupervisorMsg;

/// Maximum number of hints of one read.
const HINTS_PER_READ: usize = 16;
/// Time after which another node may take a hint that a node took and did not complete, because the node died.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);
/// Maximum time between two reads while no hint wakes this process.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of reads while the queue is unavailable.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The queue of hints. Cheap to clone.
#[derive(Clone)]
pub struct JobHints {
    queue: Arc<dyn JobStore>,
}

impl std::fmt::Debug for JobHints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JobHints")
    }
}

impl JobHints {
    pub fn new(queue: Arc<dyn JobStore>) -> Self {
        Self { queue }
    }

    pub fn queue(&self) -> Arc<dyn JobStore> {
        Arc::clone(&self.queue)
    }

    /// Adds a hint of a job that can start. A failure is only logged, because the next sweep finds the job.
    pub async fn push(&self, queue: JobQueue, org: &OrgId, job: &JobId) {
        hint_job(&*self.queue, queue, org, job).await;
    }

    /// Removes hints from the queue and returns their jobs, at most [`HINTS_PER_READ`]. A job that does not start gets no
    /// second hint.
    pub(crate) async fn take(&self, worker: &Incarnation) -> Result<Vec<(JobQueue, Key)>> {
        let claimed = self.queue.claim(JOB_HINTS, worker, HINTS_PER_READ, ABANDONED_AFTER).await?;
        let mut keys = Vec::with_capacity(claimed.len());
        for hint in claimed {
            self.queue.complete(JOB_HINTS, &hint).await?;
            keys.extend(hinted_job(&hint.job).map(|key| (hinted_queue(&hint.job), key)));
        }
        Ok(keys)
    }

    /// Waits until any process adds a hint, at most [`POLL_INTERVAL`]. If the queue is unavailable, waits that long.
    pub(crate) async fn wait(&self) {
        if let Err(error) = self.queue.wait_for_push(JOB_HINTS, POLL_INTERVAL).await {
            tracing::debug!(%error, "cannot wait for hints of jobs; this node reads them periodically");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Spawns a task that starts the jobs of hints until the node drains or stops.
pub(crate) fn until_stopped(shared: &Arc<Shared>, supervisor: ActorRef<SupervisorMsg>) {
    let shared = Arc::clone(shared);
    let tracker = shared.tracker.clone();
    tracker.spawn(async move {
        let stopped = shared.stopped.clone();
        let _ = stopped.run_until_cancelled(start_jobs(&shared, &supervisor)).await;
    });
}

async fn start_jobs(shared: &Shared, supervisor: &ActorRef<SupervisorMsg>) {
    let hints = &shared.dependencies.hints;
    while !shared.draining.is_cancelled() {
        let pause = match hints.take(&shared.dependencies.incarnation).await {
            Ok(keys) => {
                for (queue, key) in keys {
                    let _ = supervisor.send_message(SupervisorMsg::Start(queue, key));
                }
                // A node without capacity leaves the next hints to other nodes.
                (!shared.has_capacity()).then_some(POLL_INTERVAL)
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the hints of jobs");
                Some(RETRY_INTERVAL)
            }
        };
        let pause = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => hints.wait().await,
            }
        };
        let _ = shared.draining.run_until_cancelled(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use folio_storage::{Job, SharedOptions};
    use folio_testkit::Simulated;
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_hint_is_taken_once() {
        let shared = folio_storage_memory::shared_stores(Arc::new(Simulated::new(7)), SharedOptions::default());
        let (hints, worker) = (JobHints::new(shared.jobs), Incarnation::derive(&["n"]));
        let key = (OrgId::derive(&["o"]), JobId::derive(&["j"]));
        hints.push(JobQueue::Deliveries, &key.0, &key.1).await;
        hints.push(JobQueue::Deliveries, &key.0, &key.1).await;
        assert_eq!(hints.take(&worker).await.unwrap(), [(JobQueue::Deliveries, key)]);
        assert!(hints.take(&worker).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_hint_of_another_process_wakes_a_node_before_its_next_read() {
        let shared = folio_storage_memory::shared_stores(Arc::new(Simulated::new(7)), SharedOptions::default());
        let (node, creator) = (JobHints::new(Arc::clone(&shared.jobs)), JobHints::new(shared.jobs));
        let (org, job) = (OrgId::derive(&["o"]), JobId::derive(&["j"]));
        let woken = tokio::time::timeout(POLL_INTERVAL / 2, node.wait());
        let (woken, ()) = tokio::join!(woken, creator.push(JobQueue::Work, &org, &job));
        woken.expect("the hint ends the wait");
        assert!(node.wait().now_or_never().is_none(), "one hint wakes one node");
    }

    #[test]
    fn a_malformed_hint_is_skipped() {
        for key in ["", "org", "org job", "org_1 job_1"] {
            let hint = Job { key: key.to_owned(), group: String::new(), payload: String::new() };
            assert_eq!(hinted_job(&hint), None, "{key}");
        }
    }
}
