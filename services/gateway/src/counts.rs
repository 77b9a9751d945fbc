//! What a gateway counts, for figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one gateway. Cheap to clone: all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
}

impl Counts {
    /// Calls that came.
    pub fn calls(&self) -> u64 {
        self.inner.calls.load(Ordering::Relaxed)
    }

    /// Calls that found no place: `OVERLOADED`.
    pub fn refused(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Connections that are open now.
    pub fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn came(&self) {
        self.inner.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn was_refused(&self) {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection until it is dropped.
    pub(crate) fn connected(&self) -> Connected {
        self.inner.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }
}

/// A connection that is open.
pub(crate) struct Connected(Counts);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.inner.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
