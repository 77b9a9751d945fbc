//! Counters for the metrics of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    calls: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    failed_authentications: Arc<AtomicU64>,
    evictions: Arc<AtomicU64>,
}

impl Counters {
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Number of calls refused with `OVERLOADED`.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Number of open connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Number of calls whose token was not valid, and of failed sign-ins.
    pub fn failed_authentications(&self) -> u64 {
        self.failed_authentications.load(Ordering::Relaxed)
    }

    /// Number of connections and calls without a valid token that were ended because newer ones needed their permits.
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    pub(crate) fn count_failed_authentication(&self) {
        self.failed_authentications.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_eviction(&self) {
        self.evictions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refusal(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open connection until the guard is dropped.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(&self.connections))
    }
}

pub(crate) struct OpenConnection(Arc<AtomicU64>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
