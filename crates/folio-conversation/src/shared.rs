//! What the supervisor, every conversation and every task of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::Stores;
use folio_tools::{Registry, ToolResources};
use folio_types::{Environment, Error, Incarnation, Reason};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failpoint::Failpoints;
use crate::handle::Dependencies;
use crate::options::Options;
use crate::supervisor::Table;

/// What the supervisor, every conversation and every task of a node share.
pub(crate) struct Shared {
    dependencies: Dependencies,
    pub(crate) options: Options,
    /// Owns every task.
    pub(crate) tracker: TaskTracker,
    /// Stops every task.
    pub(crate) token: CancellationToken,
    /// The conversations in memory.
    pub(crate) table: Table,
    pub(crate) counters: Counters,
    draining: AtomicBool,
    /// Some conversation came to rest, or left.
    pub(crate) rested: Notify,
}

/// Counters that survive every conversation.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) passivated: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Shared {
    pub(crate) fn new(dependencies: Dependencies, options: Options) -> Self {
        Self {
            dependencies,
            options,
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
            table: Table::default(),
            counters: Counters::default(),
            draining: AtomicBool::new(false),
            rested: Notify::new(),
        }
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.dependencies.stores
    }

    pub(crate) fn models(&self) -> &Arc<dyn Models> {
        &self.dependencies.models
    }

    pub(crate) fn meter(&self) -> &SharedMeter {
        &self.dependencies.meter
    }

    pub(crate) fn tools(&self) -> &Arc<Registry> {
        &self.dependencies.tools
    }

    pub(crate) fn environment(&self) -> &Arc<dyn Environment> {
        &self.dependencies.environment
    }

    pub(crate) fn incarnation(&self) -> &Incarnation {
        &self.dependencies.incarnation
    }

    pub(crate) fn failpoints(&self) -> &Failpoints {
        &self.dependencies.failpoints
    }

    pub(crate) fn resources(&self) -> ToolResources {
        ToolResources {
            stores: self.stores().clone(),
            models: self.models().clone(),
            meter: self.meter().clone(),
            environment: self.environment().clone(),
        }
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// What new work is told while the node shuts down.
pub(crate) fn draining() -> Error {
    Error::unavailable(Reason::Draining, "the node is shutting down").retry_after(std::time::Duration::from_secs(1))
}
