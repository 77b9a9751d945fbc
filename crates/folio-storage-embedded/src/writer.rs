//! The writer: one thread that commits whole transactions.
//!
//! A write is a closure over a [`Transaction`]. Waiting writes share one commit with one fsync and return after it. A
//! write that needs no fsync waits briefly for a commit that has one.
//!
//! After a failed commit or a panic the writer refuses all writes, because the state on disk is unknown until the store
//! is reopened: by the writer once the disk accepts writes again, or at the next start. A write whose outcome was
//! reported as unknown may then turn out to be committed.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use fjall::{OwnedWriteBatch as WriteBatch, PersistMode};
use folio_types::{Error, Reason};
use tokio::sync::oneshot;

use super::Options;
use super::engine::{OpenDatabase, SharedDatabase, close_when_idle};
use super::transaction::Transaction;

const COMMIT_WRITES: usize = 256;
/// Size of a commit from which it includes no further write, in bytes.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// Size of the probe file that the disk must accept before the database is reopened, in bytes.
const PROBE_BYTES: usize = 1024 * 1024;
/// Time for which writes without an fsync wait for another commit.
const LAZY_WAIT: Duration = Duration::from_millis(2);

pub(super) trait QueuedWrite: Send {
    /// True: the write returns only after an fsync.
    fn is_durable(&self) -> bool;
    /// Runs the write; returns whether its changes are retained.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> bool;
    /// Returns the result to the caller of the write.
    fn answer(self: Box<Self>);
    /// Returns an error to the caller of the write: the outcome is unknown.
    fn fail(self: Box<Self>, error: Error);
}

/// A write: its closure and the channel for its result.
pub(super) struct WriteTask<T, F> {
    run: Option<F>,
    outcome: Option<folio_types::Result<T>>,
    durable: bool,
    answer: oneshot::Sender<folio_types::Result<T>>,
}

impl<T, F> WriteTask<T, F> {
    pub(super) fn new(run: F, durable: bool, answer: oneshot::Sender<folio_types::Result<T>>) -> Self {
        Self { run: Some(run), outcome: None, durable, answer }
    }
}

impl<T, F> QueuedWrite for WriteTask<T, F>
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// The commit is empty.
    Never,
    /// No write needs an fsync: until this time the commit waits for a write that needs one.
    At(Instant),
    /// A write waits for the fsync.
    Now,
}

impl Due {
    fn with(self, durable: bool) -> Self {
        match self {
            _ if durable => Self::Now,
            Self::Never => Self::At(Instant::now() + LAZY_WAIT),
            due => due,
        }
    }
}

pub(super) enum Message {
    Write(Box<dyn QueuedWrite>),
    Reopen(oneshot::Sender<Result<(), Error>>),
    /// Ends the writer after the waiting writes.
    Close,
}

enum Next {
    Commit,
    Reopen(oneshot::Sender<Result<(), Error>>),
    Close,
}

pub(super) fn stopped() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is closed")
}

pub(super) fn poisoned_error() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "a write to the store failed; writes are refused until it is reopened")
}

/// Commits a batch: [`WriteBatch::commit`], or a failure in a test.
pub(super) type Commit = fn(WriteBatch) -> fjall::Result<()>;

pub(super) struct Writer {
    pub(super) opened: SharedDatabase,
    pub(super) path: PathBuf,
    pub(super) options: Options,
    pub(super) messages: Receiver<Message>,
    /// True: all writes are refused.
    pub(super) is_poisoned: Arc<AtomicBool>,
    /// Number of commits with an fsync.
    pub(super) commits: Arc<AtomicU64>,
    pub(super) commit: Commit,
}

impl Writer {
    /// Processes messages until the writer is closed or all senders are dropped.
    pub(super) fn run(self) {
        loop {
            match self.commit() {
                Next::Commit => {}
                Next::Reopen(answer) => drop(answer.send(self.reopen())),
                Next::Close => break,
            }
        }
        // Senders of later messages find the channel closed.
        if let Some(Err(error)) = self.opened().map(|opened| opened.db.persist(PersistMode::SyncAll)) {
            tracing::error!(%error, "cannot sync the store at shutdown");
        }
    }

    fn opened(&self) -> Option<Arc<OpenDatabase>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn reopen(&self) -> Result<(), Error> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        self.probe().map_err(|error| {
            let message = format!("the store's disk accepts no writes: {}", error.kind());
            Error::unavailable(Reason::StoreUnavailable, message)
        })?;
        if !close_when_idle(&self.opened) {
            return Err(poisoned_error());
        }
        let opened = OpenDatabase::open(&self.path, &self.options)?;
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(opened));
        self.is_poisoned.store(false, Ordering::Release);
        tracing::warn!("the store was reopened after a failed write and accepts writes again");
        Ok(())
    }

    /// Checks whether the disk accepts writes. The check precedes the closing of the database, so that reads continue
    /// if it fails.
    fn probe(&self) -> std::io::Result<()> {
        let path = self.path.with_extension("probe");
        let written = std::fs::File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0; PROBE_BYTES])?;
            file.sync_all()
        });
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }

    /// Handles messages while no database is open because reopening failed. Refuses writes.
    fn refuse(&self) -> Next {
        match self.messages.recv() {
            Ok(Message::Write(write)) => {
                write.fail(poisoned_error());
                Next::Commit
            }
            Ok(Message::Reopen(answer)) => Next::Reopen(answer),
            Ok(Message::Close) | Err(_) => Next::Close,
        }
    }

    /// Waits for a write and commits it together with the writes that wait behind it.
    fn commit(&self) -> Next {
        let Some(opened) = self.opened() else { return self.refuse() };
        let mut transaction = Transaction::new(&opened);
        let mut writes: Vec<Box<dyn QueuedWrite>> = Vec::new();
        let mut due = Due::Never;
        let mut next = Next::Commit;
        while writes.len() < COMMIT_WRITES && transaction.written_bytes() < COMMIT_BYTES {
            let mut write = match self.next(due) {
                Ok(Message::Write(write)) => write,
                Ok(Message::Reopen(answer)) => {
                    next = Next::Reopen(answer);
                    break;
                }
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => {
                    next = Next::Close;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
            };
            if self.is_poisoned.load(Ordering::Acquire) {
                write.fail(poisoned_error());
                continue;
            }
            due = due.with(write.is_durable());
            let can_continue = self.run_write(write.as_mut(), &mut transaction);
            writes.push(write);
            if !can_continue {
                self.stop_writing(writes);
                return next;
            }
        }
        if !writes.is_empty() {
            self.make_durable(transaction, writes, due);
        }
        next
    }

    /// Returns the next message. Waits for it until the commit is due.
    fn next(&self, due: Due) -> Result<Message, RecvTimeoutError> {
        match due {
            Due::Never => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Due::At(end) => self.messages.recv_timeout(end.saturating_duration_since(Instant::now())),
            Due::Now => self.messages.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        }
    }

    /// Returns false if the write panicked.
    fn run_write(&self, write: &mut dyn QueuedWrite, transaction: &mut Transaction<'_>) -> bool {
        match catch_unwind(AssertUnwindSafe(|| write.run(transaction))) {
            Ok(keep) => {
                if keep {
                    transaction.keep();
                } else {
                    transaction.undo();
                }
                true
            }
            Err(_) => {
                tracing::error!("a write of the store panicked; further writes are refused");
                false
            }
        }
    }

    fn make_durable(&self, transaction: Transaction<'_>, writes: Vec<Box<dyn QueuedWrite>>, due: Due) {
        let durable = due == Due::Now;
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        if let Some(batch) = transaction.into_batch(mode) {
            if let Err(error) = (self.commit)(batch) {
                tracing::error!(%error, "a commit of the store failed; further writes are refused");
                return self.stop_writing(writes);
            }
            self.commits.fetch_add(u64::from(durable), Ordering::Relaxed);
        }
        for write in writes {
            write.answer();
        }
    }

    fn stop_writing(&self, writes: Vec<Box<dyn QueuedWrite>>) {
        self.is_poisoned.store(true, Ordering::Release);
        for write in writes {
            write.fail(poisoned_error());
        }
    }
}
