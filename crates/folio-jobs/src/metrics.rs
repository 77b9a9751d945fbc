//! Numbers of jobs for the metrics of a node. No label names an organization or a job.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_history::job::{JobHeader, JobQueue};

/// Label of all kinds that this build does not know.
const OTHER: &str = "other";

/// The jobs of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobsSnapshot {
    pub queues: Vec<QueueLoad>,
    pub ended: Vec<EndedJobs>,
}

/// The jobs of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLoad {
    pub queue: JobQueue,
    /// Jobs of all nodes in the index of open jobs, at the newest complete sweep of this node.
    pub open: u64,
    /// Jobs placed at this node that could start, at its newest complete sweep.
    pub ready: u64,
    /// Jobs that this node runs.
    pub running: u64,
}

/// Ended jobs with a kind and an end, since the start of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedJobs {
    /// Name of the kind, or `other`.
    pub kind: &'static str,
    /// `completed`, `failed` or `cancelled`.
    pub end: &'static str,
    pub count: u64,
    /// Sum of the times from the creation to the end of each job, in seconds.
    pub seconds: u64,
}

/// Numbers of jobs that a sweep found in a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SweepCounts {
    pub(crate) open: u64,
    pub(crate) ready: u64,
}

#[derive(Debug, Default)]
pub(crate) struct JobMetrics {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: BTreeMap<JobQueue, SweepCounts>,
    /// Number and sum of seconds by kind and end.
    ended: BTreeMap<(&'static str, &'static str), (u64, u64)>,
}

impl JobMetrics {
    pub(crate) fn set_sweep(&self, counts: BTreeMap<JobQueue, SweepCounts>) {
        self.inner().counts = counts;
    }

    /// Counts a job. An open job is not counted. `kind`: None if this build does not know the kind.
    pub(crate) fn count_end(&self, kind: Option<&'static str>, job: &JobHeader) {
        let (Some(end), Some(ended_at)) = (job.outcome(), job.ended_at) else { return };
        let took = Duration::try_from(ended_at.duration_since(job.created_at)).unwrap_or_default();
        let mut inner = self.inner();
        let (count, seconds) = inner.ended.entry((kind.unwrap_or(OTHER), end)).or_default();
        *count = count.saturating_add(1);
        *seconds = seconds.saturating_add(took.as_secs());
    }

    /// Returns the metrics. `running`: returns the number of jobs of a queue that this node runs.
    pub(crate) fn snapshot(&self, running: impl Fn(JobQueue) -> u64) -> JobsSnapshot {
        let inner = self.inner();
        let queues = JobQueue::ALL.map(|queue| {
            let SweepCounts { open, ready } = inner.counts.get(&queue).copied().unwrap_or_default();
            QueueLoad { queue, open, ready, running: running(queue) }
        });
        let ended = inner.ended.iter().map(|(&(kind, end), &(count, seconds))| EndedJobs { kind, end, count, seconds });
        JobsSnapshot { queues: queues.to_vec(), ended: ended.collect() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use folio_history::job::{JobCommand, NewJob};
    use folio_types::{JobId, OrgId, Principal, Role, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    #[test]
    fn ended_jobs_are_counted_by_kind_and_end_with_their_time_since_the_creation() {
        let at = |seconds: i64| Timestamp::constant(1_790_000_000 + seconds, 0);
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: "test".to_owned(),
            input: json!({}),
            items: vec!["one".to_owned()],
            running_max: Duration::from_secs(60),
            at: at(0),
        };
        let open = new.header().unwrap();
        let cancelled = open.after(JobCommand::Cancel, at(9)).unwrap().unwrap();
        let metrics = JobMetrics::default();
        for (kind, job) in
            [(Some("test"), &open), (Some("test"), &cancelled), (Some("test"), &cancelled), (None, &cancelled)]
        {
            metrics.count_end(kind, job);
        }
        metrics.set_sweep([(JobQueue::Deliveries, SweepCounts { open: 3, ready: 1 })].into());
        let JobsSnapshot { queues, ended } = metrics.snapshot(|queue| u64::from(queue == JobQueue::Work));
        let ended_jobs = |kind, count, seconds| EndedJobs { kind, end: "cancelled", count, seconds };
        assert_eq!(ended, [ended_jobs("other", 1, 9), ended_jobs("test", 2, 18)]);
        let load = |queue, open, ready, running| QueueLoad { queue, open, ready, running };
        assert_eq!(
            queues,
            [load(JobQueue::Work, 0, 0, 1), load(JobQueue::Deliveries, 3, 1, 0), load(JobQueue::Ingestions, 0, 0, 0),]
        );
    }
}
