//! Gates that requests wait at until a test opens them.

use std::collections::HashSet;

use tokio::sync::watch;

/// The set of open gates. All other gates are closed.
#[derive(Debug)]
pub(crate) struct Gates {
    open: watch::Sender<HashSet<String>>,
}

impl Gates {
    pub(crate) fn new() -> Self {
        Self { open: watch::Sender::new(HashSet::new()) }
    }

    /// Opens a gate for waiting and future requests.
    pub(crate) fn open(&self, gate: &str) {
        self.open.send_if_modified(|open| open.insert(gate.to_owned()));
    }

    pub(crate) fn close_all(&self) {
        self.open.send_modify(HashSet::clear);
    }

    /// Waits until the gate is open.
    pub(crate) async fn pass(&self, gate: &str) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.open.subscribe().wait_for(|open| open.contains(gate)).await;
    }
}
