//! Counters of the meter over all organizations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Default)]
pub struct Counters {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    reserved: AtomicU64,
    used: AtomicU64,
    refused: AtomicU64,
    settled_late: AtomicU64,
}

impl Counters {
    /// Credits that are reserved for calls in flight.
    pub fn reserved(&self) -> u64 {
        self.inner.reserved.load(Ordering::Relaxed)
    }

    /// Credits that were charged to calls of this process.
    pub fn used(&self) -> u64 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Number of calls that were refused because credit was exhausted.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Number of calls that were settled after another process had settled their row. Their usage is recorded but not
    /// charged.
    pub fn settled_late(&self) -> u64 {
        self.inner.settled_late.load(Ordering::Relaxed)
    }

    pub(crate) fn add_settled_late(&self) {
        self.inner.settled_late.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_refused(&self) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_used(&self, credits: u64) {
        self.inner.used.fetch_add(credits, Ordering::Relaxed);
    }

    pub(crate) fn reserve(&self, credits: u64) -> ReservedGuard {
        self.inner.reserved.fetch_add(credits, Ordering::Relaxed);
        ReservedGuard { counters: self.clone(), credits }
    }
}

#[derive(Debug)]
pub(crate) struct ReservedGuard {
    counters: Counters,
    credits: u64,
}

impl Drop for ReservedGuard {
    fn drop(&mut self) {
        self.counters.inner.reserved.fetch_sub(self.credits, Ordering::Relaxed);
    }
}
