//! The writer: one thread, and whole transactions.
//!
//! A write is a closure over a [`Transaction`]. Those that wait together become one commit with one fsync; none is
//! answered before it. One that needs no fsync waits a moment for another commit to go with. After a failed commit or a panic nothing is written any more: what the disk holds is known again
//! only after the store was opened anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use fjall::PersistMode;
use folio_types::{Error, Reason};
use tokio::sync::oneshot;

use super::engine::Opened;
use super::planted::{Bug, Plan, crash_point};
use super::transaction::Transaction;

/// Writes of one commit at most.
const COMMIT_WRITES: usize = 256;
/// Bytes from which a commit takes no further write.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// How long writes without an fsync wait for a commit to go with.
const LAZY_WAIT: Duration = Duration::from_millis(2);

/// A write that waits for its turn.
pub(super) trait Job: Send {
    /// Whether it is answered after an fsync only.
    fn is_durable(&self) -> bool;
    /// Runs it; whether it is to be kept.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> bool;
    /// Answers it with what it gave.
    fn answer(self: Box<Self>);
    /// Answers that its outcome is unknown.
    fn fail(self: Box<Self>, error: Error);
}

/// A write with its closure, and who waits for it.
pub(super) struct Work<T, F> {
    run: Option<F>,
    outcome: Option<folio_types::Result<T>>,
    durable: bool,
    answer: oneshot::Sender<folio_types::Result<T>>,
}

impl<T, F> Work<T, F> {
    pub(super) fn new(run: F, durable: bool, answer: oneshot::Sender<folio_types::Result<T>>) -> Self {
        Self { run: Some(run), outcome: None, durable, answer }
    }
}

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: FnOnce(&mut Transaction<'_>) -> folio_types::Result<T> + Send,
{
    fn is_durable(&self) -> bool {
        self.durable
    }

    fn run(&mut self, transaction: &mut Transaction<'_>) -> bool {
        let outcome = self.run.take().map(|run| run(transaction));
        let keep = matches!(outcome, Some(Ok(_)));
        self.outcome = outcome;
        keep
    }

    fn answer(self: Box<Self>) {
        let outcome = self.outcome.unwrap_or_else(|| Err(stopped()));
        let _ = self.answer.send(outcome);
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}

/// When a commit is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// It is empty.
    Never,
    /// Nothing in it needs an fsync: it waits until then for something that does.
    At(Instant),
    /// Somebody waits for its fsync.
    Now,
}

impl Due {
    /// When, with one more write.
    fn with(self, durable: bool) -> Self {
        match self {
            _ if durable => Self::Now,
            Self::Never => Self::At(Instant::now() + LAZY_WAIT),
            due => due,
        }
    }
}

/// What the writer is asked.
pub(super) enum Message {
    /// A write.
    Write(Box<dyn Job>),
    /// To end after what waits.
    Close,
}

pub(super) fn stopped() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is closed")
}

pub(super) fn broken() -> Error {
    Error::unavailable(
        Reason::StoreUnavailable,
        "a write to the store failed; nothing more is written until it is opened anew",
    )
}

/// The writer's thread.
pub(super) struct Writer {
    pub(super) opened: Arc<Opened>,
    pub(super) jobs: Receiver<Message>,
    /// Whether nothing is written any more.
    pub(super) broken: Arc<AtomicBool>,
    /// Commits with an fsync.
    pub(super) commits: Arc<AtomicU64>,
    pub(super) plan: Plan,
}

impl Writer {
    /// Works until it is told to end or nobody is left who could ask.
    pub(super) fn work(self) {
        let mut open = true;
        while open {
            open = self.commit();
        }
        // Whoever sent between the closing and now is told so by the channel that goes away.
        if let Err(error) = self.opened.db.persist(PersistMode::SyncAll) {
            tracing::error!(%error, "the store was not synced at its closing");
        }
    }

    /// Waits for a write and makes it, with what waits behind it, one commit; false: the store is to be closed.
    fn commit(&self) -> bool {
        let mut transaction = Transaction::new(&self.opened, self.plan);
        let mut jobs: Vec<Box<dyn Job>> = Vec::new();
        let mut due = Due::Never;
        let mut open = true;
        while jobs.len() < COMMIT_WRITES && transaction.written_bytes() < COMMIT_BYTES {
            let mut job = match self.next(due) {
                Ok(Message::Write(job)) => job,
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => {
                    open = false;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
            };
            if self.broken.load(Ordering::Acquire) {
                job.fail(broken());
                continue;
            }
            due = due.with(job.is_durable());
            let goes_on = self.run(job.as_mut(), &mut transaction);
            jobs.push(job);
            if !goes_on {
                return self.give_up(jobs, open);
            }
        }
        if jobs.is_empty() { open } else { self.make_durable(transaction, jobs, due, open) }
    }

    /// What is asked next, waited for until the commit is due.
    fn next(&self, due: Due) -> Result<Message, RecvTimeoutError> {
        match due {
            Due::Never => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Due::At(end) => self.jobs.recv_timeout(end.saturating_duration_since(Instant::now())),
            Due::Now => self.jobs.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        }
    }

    /// Whether the writer can go on.
    fn run(&self, job: &mut dyn Job, transaction: &mut Transaction<'_>) -> bool {
        match catch_unwind(AssertUnwindSafe(|| job.run(transaction))) {
            Ok(keep) => {
                if keep || self.plan.has(Bug::FailedTransactionKept) {
                    transaction.keep();
                } else {
                    transaction.undo();
                }
                true
            }
            Err(_) => {
                tracing::error!("a write of the store panicked; nothing more is written");
                false
            }
        }
    }

    fn make_durable(&self, transaction: Transaction<'_>, mut jobs: Vec<Box<dyn Job>>, due: Due, open: bool) -> bool {
        crash_point("commit:before");
        if self.plan.has(Bug::AcknowledgedBeforeCommit) {
            jobs.drain(..).for_each(Job::answer);
            crash_point("planted:between");
        }
        let durable = due == Due::Now;
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let rows = if self.plan.has(Bug::TornTransaction) { 1 } else { usize::MAX };
        for batch in transaction.into_batches(rows, mode) {
            let committed = if self.plan.has(Bug::CommitFails) { Err(fjall::Error::Poisoned) } else { batch.commit() };
            if let Err(error) = committed {
                tracing::error!(%error, "a commit of the store failed; nothing more is written");
                return self.give_up(jobs, open);
            }
            self.commits.fetch_add(u64::from(durable), Ordering::Relaxed);
            crash_point("commit:after");
        }
        for job in jobs {
            job.answer();
        }
        crash_point("answer:after");
        open
    }

    fn give_up(&self, jobs: Vec<Box<dyn Job>>, open: bool) -> bool {
        self.broken.store(true, Ordering::Release);
        for job in jobs {
            job.fail(broken());
        }
        open
    }
}
