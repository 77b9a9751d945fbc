//! Counters for the metrics of a gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clones share the counters.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
}

impl Counters {
    pub fn calls(&self) -> u64 {
        self.inner.calls.load(Ordering::Relaxed)
    }

    /// Number of calls refused with `OVERLOADED`.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Number of open connections.
    pub fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn count_call(&self) {
        self.inner.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refusal(&self) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an open connection until the guard is dropped.
    pub(crate) fn open_connection(&self) -> OpenConnection {
        self.inner.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(self.clone())
    }
}

pub(crate) struct OpenConnection(Counters);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.inner.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
