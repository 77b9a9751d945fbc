//! Counters for the metrics of a process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Cause of the runs of prompts beyond the maximum of one change.
pub(crate) const TOO_MANY_PROMPTS: &str = "TOO_MANY_PROMPTS";

/// Counts what does not follow a write although the organization requested it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    dropped: AtomicU64,
    disabled: AtomicU64,
    refused: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
}

impl Counters {
    /// Number of events that are not delivered to an endpoint because it has too many open deliveries.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }

    /// Number of endpoints that were disabled because they failed for too long.
    pub fn disabled_endpoints(&self) -> u64 {
        self.inner.disabled.load(Ordering::Relaxed)
    }

    /// Returns the number of jobs that were not created after a write, by the kind of the job and the reason.
    pub fn refused_jobs(&self) -> Vec<((&'static str, &'static str), u64)> {
        self.refused().iter().map(|(key, count)| (*key, *count)).collect()
    }

    pub(crate) fn count_dropped(&self) {
        self.inner.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_disabled_endpoint(&self) {
        self.inner.disabled.fetch_add(1, Ordering::Relaxed);
    }

    /// `kind`: that of the jobs; `reason`: the reason of the error, or [`TOO_MANY_PROMPTS`].
    pub(crate) fn count_refused_jobs(&self, kind: &'static str, reason: &'static str, jobs: u64) {
        if jobs > 0 {
            let mut refused = self.refused();
            let count = refused.entry((kind, reason)).or_default();
            *count = count.saturating_add(jobs);
        }
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<(&'static str, &'static str), u64>> {
        self.inner.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
