//! State that the supervisor, every conversation and every task of a node share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_history::event::EventKind;
use folio_history::journal::Entry;
use folio_history::thread::{OpenTurnRow, ThreadHeader};
use folio_tools::ToolResources;
use folio_tools::sections::OutlineCache;
use folio_types::op::OpKey;
use folio_types::{Error, OrgId, Reason, Result, ThreadId};
use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Excerpts;
use crate::group::TurnPeer;
use crate::handle::Dependencies;
use crate::options::Options;
use crate::supervisor::{MemoryBudget, Table, WaitingThreads};

const ENTRIES_PER_READ: usize = 512;

pub(crate) struct Shared {
    pub(crate) dependencies: Dependencies,
    pub(crate) options: Options,
    /// Reaches the owners of other threads.
    pub(crate) peer: TurnPeer,
    /// Tracks every task of the node.
    pub(crate) tracker: TaskTracker,
    /// Tracks the tasks that publish turns. They are also in `tracker`.
    pub(crate) publishers: TaskTracker,
    /// Stops every task.
    pub(crate) token: CancellationToken,
    pub(crate) table: Table,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) counters: Counters,
    draining: AtomicBool,
    pub(crate) excerpts: Excerpts,
    pub(crate) outlines: OutlineCache,
    /// Rows of ended turns that are removed from the open-turn index in one batch.
    pub(crate) removals: Removals,
    pub(crate) waiting: WaitingThreads,
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
pub(crate) struct Removals(Mutex<PendingRemovals>);

#[derive(Debug, Default)]
struct PendingRemovals {
    /// The rows with the time at which each was added, the oldest first.
    rows: VecDeque<(Instant, OpenTurnRow)>,
    /// True while a task calls [`Removals::next`].
    has_task: bool,
}

/// Next step of the task that removes the rows that no append removes.
#[derive(Debug, PartialEq)]
pub(crate) enum NextRemoval {
    /// Remove these rows.
    Remove(Vec<OpenTurnRow>),
    /// Wait until the oldest row is overdue.
    Wait(Instant),
    /// No row is pending: the task ends, and the next row starts another one.
    End,
}

impl Removals {
    /// Adds a row. Returns true if the caller must start the task.
    pub(crate) fn push(&self, row: OpenTurnRow, now: Instant) -> bool {
        let mut pending = self.lock();
        pending.rows.push_back((now, row));
        !std::mem::replace(&mut pending.has_task, true)
    }

    /// Takes at most `limit` rows, the oldest first.
    pub(crate) fn take(&self, limit: usize) -> Vec<OpenTurnRow> {
        let mut pending = self.lock();
        let taken = pending.rows.len().min(limit);
        pending.rows.drain(..taken).map(|(_, row)| row).collect()
    }

    /// Returns the next step of the task. A row is overdue after `delay`; the younger rows are removed with it.
    pub(crate) fn next(&self, now: Instant, delay: Duration) -> NextRemoval {
        let mut pending = self.lock();
        match pending.rows.front() {
            None => {
                pending.has_task = false;
                NextRemoval::End
            }
            Some((added, _)) if now < *added + delay => NextRemoval::Wait(*added + delay),
            Some(_) => NextRemoval::Remove(pending.rows.drain(..).map(|(_, row)| row).collect()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingRemovals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    /// Counts an event. Must be called once for each event, when the event is first emitted.
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
            peer: TurnPeer::new(dependencies.all_nodes.clone()),
            dependencies,
            memory: MemoryBudget::new(options.history_bytes_max),
            options,
            tracker: TaskTracker::new(),
            publishers: TaskTracker::new(),
            token: CancellationToken::new(),
            table: Table::default(),
            counters: Counters::default(),
            draining: AtomicBool::new(false),
            excerpts: Excerpts::default(),
            outlines: OutlineCache::default(),
            removals: Removals::default(),
            waiting: WaitingThreads::default(),
            idled: Notify::new(),
        }
    }

    pub(crate) fn resources(&self) -> ToolResources {
        let dependencies = self.dependencies.clone();
        ToolResources {
            stores: dependencies.stores,
            models: dependencies.models,
            meter: dependencies.meter,
            environment: dependencies.environment,
            extraction: dependencies.extraction,
            job_limits: dependencies.job_limits,
            job_hints: dependencies.job_hints,
            mcp: dependencies.mcp,
            outlines: self.outlines.clone(),
            retriever: dependencies.retriever,
            tasks: self.tracker.clone(),
        }
    }

    /// Deletes a thread and then the credit budgets of its turns, also those that pay for open jobs. If the second step fails, or
    /// a job writes at the same time, the row of a budget remains until the organization is erased; it contains ids and numbers
    /// only.
    pub(crate) async fn delete_thread(&self, org: &OrgId, thread: &ThreadId, by: Option<&OpKey>) -> Result<()> {
        let stores = &self.dependencies.stores;
        stores.threads.delete(org, thread, by).await?;
        if let Err(error) = stores.budgets().remove(org, thread.as_str()).await {
            tracing::debug!(%thread, %error, "cannot remove the credit budget of a deleted thread");
        }
        Ok(())
    }

    /// Reads the journal of a thread in order, up to the entries that the header counts. `INTERNAL` if the thread has
    /// fewer entries.
    pub(crate) async fn for_each_entry(&self, header: &ThreadHeader, mut read: impl FnMut(Entry)) -> Result<()> {
        let mut next = 0;
        while next < header.entries {
            let page =
                self.dependencies.stores.threads.entries(&header.org, &header.id, next, ENTRIES_PER_READ).await?;
            let Some((last, _)) = page.last() else {
                let message = format!("thread {} has fewer entries than its header states", header.id);
                return Err(Error::internal(message));
            };
            next = last.saturating_add(1);
            page.into_iter().filter(|(number, _)| *number < header.entries).for_each(|(_, entry)| read(entry));
        }
        Ok(())
    }

    /// Waits for a store operation at most for the store time limit. `STORE_UNAVAILABLE` afterwards: the outcome of a
    /// write is unknown.
    pub(crate) fn with_store_timeout<T>(
        &self,
        operation: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        let timed_out = |_| Error::unavailable(Reason::StoreUnavailable, "the store did not answer in time");
        let answered = tokio::time::timeout(self.options.store_timeout, operation);
        answered.map(move |answer| answer.map_err(timed_out).flatten())
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
    Error::unavailable(Reason::Draining, "the node is shutting down").retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use folio_types::{OrgId, ThreadId, Timestamp, TurnId};

    use super::*;

    fn row(number: u32) -> OpenTurnRow {
        let (turn, at) = (TurnId::new(ThreadId::derive(&["t"]), number), Timestamp::UNIX_EPOCH);
        OpenTurnRow { org: OrgId::derive(&["o"]), turn, epoch: 1, at, until: at }
    }

    #[test]
    fn the_task_removes_only_rows_that_no_append_took_within_the_delay() {
        let (removals, start, delay) = (Removals::default(), Instant::now(), Duration::from_millis(200));
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        assert!(removals.push(row(1), at(0)), "the first row starts the task");
        assert!(!removals.push(row(2), at(50)));
        assert_eq!(removals.next(at(50), delay), NextRemoval::Wait(at(200)));
        assert_eq!(removals.take(1), [row(1)], "an append takes the oldest row");
        assert_eq!(removals.next(at(200), delay), NextRemoval::Wait(at(250)), "the younger row is not overdue");
        assert!(!removals.push(row(3), at(240)), "the task still runs");
        assert_eq!(removals.next(at(250), delay), NextRemoval::Remove(vec![row(2), row(3)]));
        assert_eq!(removals.next(at(250), delay), NextRemoval::End);
        assert!(removals.push(row(4), at(260)), "the next row starts another task");
    }
}
