//! What a meter counts, for figures: of all organizations together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the meter of a process. Cheap to clone: all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    reserved: AtomicU64,
    used: AtomicU64,
    refused: AtomicU64,
    settled_late: AtomicU64,
}

impl Counts {
    /// Credits that are reserved for calls under way.
    pub fn reserved(&self) -> u64 {
        self.inner.reserved.load(Ordering::Relaxed)
    }

    /// Credits that calls of this process took.
    pub fn used(&self) -> u64 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Calls that were refused because credit was exhausted.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Calls whose reservation had ended otherwise before they were settled: what they used is noted, not charged.
    pub fn settled_late(&self) -> u64 {
        self.inner.settled_late.load(Ordering::Relaxed)
    }

    pub(crate) fn was_settled_late(&self) {
        self.inner.settled_late.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn was_refused(&self) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn took(&self, credits: u64) {
        self.inner.used.fetch_add(credits, Ordering::Relaxed);
    }

    /// Counts credits as reserved until what is given is dropped.
    pub(crate) fn hold(&self, credits: u64) -> Held {
        self.inner.reserved.fetch_add(credits, Ordering::Relaxed);
        Held { counts: self.clone(), credits }
    }
}

/// Credits that are reserved for a call.
#[derive(Debug)]
pub(crate) struct Held {
    counts: Counts,
    credits: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counts.inner.reserved.fetch_sub(self.credits, Ordering::Relaxed);
    }
}
