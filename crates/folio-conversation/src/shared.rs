//! State that the supervisor, every conversation and every task of a node share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use folio_history::event::EventKind;
use folio_history::thread::OpenTurnRow;
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_quotas::Slots;
use folio_storage::Stores;
use folio_tools::{ProfileTools, Registry, ToolResources};
use folio_types::{Environment, Error, Incarnation, Reason};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Excerpts;
use crate::failpoint::Failpoints;
use crate::handle::Dependencies;
use crate::options::Options;
use crate::owners::Owners;
use crate::publish::SharedTurnStores;
use crate::supervisor::{MemoryBudget, Table};
use crate::window::tokens;

pub(crate) struct Shared {
    dependencies: Dependencies,
    pub(crate) options: Options,
    /// Tracks every task of the node.
    pub(crate) tracker: TaskTracker,
    /// Tracks the tasks that publish turns. They are also in `tracker`.
    pub(crate) publishers: TaskTracker,
    /// Stops every task.
    pub(crate) token: CancellationToken,
    pub(crate) table: Table,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) counters: Counters,
    /// Tokens of the tool definitions by profile, cached.
    tool_tokens: Mutex<HashMap<&'static str, usize>>,
    draining: AtomicBool,
    pub(crate) excerpts: Excerpts,
    /// Rows of ended turns that are removed from the open-turn index in one batch.
    pub(crate) removals: Removals,
    /// Notified when a conversation becomes idle or stops.
    pub(crate) idled: Notify,
}

/// Counters since the start of the node.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) passivated: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) turns_started: AtomicU64,
    pub(crate) turns_completed: AtomicU64,
    pub(crate) turns_failed: AtomicU64,
    pub(crate) taken_over: AtomicU64,
    pub(crate) sweeps: AtomicU64,
}

/// Rows of the open-turn index whose removal is pending.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<Vec<OpenTurnRow>>);

impl Removals {
    /// Returns true if other rows are pending, whose removal includes this row.
    pub(crate) fn push(&self, row: OpenTurnRow) -> bool {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rows.push(row);
        rows.len() > 1
    }

    /// Takes at most `limit` rows, the oldest first.
    pub(crate) fn take(&self, limit: usize) -> Vec<OpenTurnRow> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = rows.len().min(limit);
        rows.drain(..taken).collect()
    }
}

impl Counters {
    /// Must be called once per event, when it is first emitted.
    pub(crate) fn count(&self, event: &EventKind) {
        let counter = match event {
            EventKind::TurnStarted { .. } => &self.turns_started,
            EventKind::Completed { .. } => &self.turns_completed,
            EventKind::Failed { .. } => &self.turns_failed,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn new(dependencies: Dependencies, options: Options) -> Self {
        Self {
            dependencies,
            memory: MemoryBudget::new(options.history_bytes_max),
            options,
            tracker: TaskTracker::new(),
            publishers: TaskTracker::new(),
            token: CancellationToken::new(),
            table: Table::default(),
            counters: Counters::default(),
            tool_tokens: Mutex::default(),
            draining: AtomicBool::new(false),
            excerpts: Excerpts::default(),
            removals: Removals::default(),
            idled: Notify::new(),
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

    pub(crate) fn turn_slots(&self) -> &Slots {
        &self.dependencies.turn_slots
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

    pub(crate) fn owners(&self) -> &dyn Owners {
        &*self.dependencies.owners
    }

    pub(crate) fn shared_turns(&self) -> Option<&SharedTurnStores> {
        self.dependencies.shared_turns.as_ref()
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
            tasks: self.tracker.clone(),
        }
    }

    pub(crate) fn tool_tokens(&self, profile: &ProfileTools) -> usize {
        let mut counted = self.tool_tokens.lock().unwrap_or_else(PoisonError::into_inner);
        *counted.entry(profile.profile.name).or_insert_with(|| {
            let each = profile.definitions();
            each.iter().map(|tool| tokens(&tool.description) + tokens(&tool.parameters.to_string())).sum()
        })
    }

    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// Returns the error that refuses new work while the node drains.
pub(crate) fn draining() -> Error {
    Error::unavailable(Reason::Draining, "the node is shutting down").retry_after(std::time::Duration::from_secs(1))
}
