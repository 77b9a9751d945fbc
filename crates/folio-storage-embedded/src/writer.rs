//! The writer: one thread, and whole transactions.
//!
//! A write is a closure over a [`Transaction`]. Those that wait together become one commit with one fsync; none is
//! answered before it. One that needs no fsync waits a moment for another commit to go with.
//!
//! After a failed commit or a panic nothing is written any more: what the disk holds is known again only after the store
//! was opened anew, here once the disk takes writes again, or at the next start. Whoever was told that the outcome of a
//! write is unknown may find it made from then on, as after any late answer.

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
use super::engine::{Current, Opened, let_go};
use super::transaction::Transaction;

/// Writes of one commit at most.
const COMMIT_WRITES: usize = 256;
/// Bytes from which a commit takes no further write.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that the disk must take before the database is opened anew.
const PROBE_BYTES: usize = 1024 * 1024;
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
    /// To open the database anew where nothing is written any more.
    OpenAnew(oneshot::Sender<Result<(), Error>>),
    /// To end after what waits.
    Close,
}

/// What follows a commit.
enum Next {
    /// The next one.
    Commit,
    /// The database is to be opened anew.
    OpenAnew(oneshot::Sender<Result<(), Error>>),
    /// The end.
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

/// Commits a batch: [`WriteBatch::commit`], or a failure in a test.
pub(super) type Commit = fn(WriteBatch) -> fjall::Result<()>;

/// The writer's thread.
pub(super) struct Writer {
    pub(super) opened: Current,
    /// The database's folder.
    pub(super) path: PathBuf,
    pub(super) options: Options,
    pub(super) jobs: Receiver<Message>,
    /// Whether nothing is written any more.
    pub(super) broken: Arc<AtomicBool>,
    /// Commits with an fsync.
    pub(super) commits: Arc<AtomicU64>,
    /// Commits one batch.
    pub(super) commit: Commit,
}

impl Writer {
    /// Works until it is told to end or nobody is left who could ask.
    pub(super) fn work(self) {
        loop {
            match self.commit() {
                Next::Commit => {}
                Next::OpenAnew(answer) => drop(answer.send(self.open_anew())),
                Next::Close => break,
            }
        }
        // Whoever sent between the closing and now is told so by the channel that goes away.
        if let Some(Err(error)) = self.opened().map(|opened| opened.db.persist(PersistMode::SyncAll)) {
            tracing::error!(%error, "the store was not synced at its closing");
        }
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn open_anew(&self) -> Result<(), Error> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        self.probe().map_err(|error| {
            let message = format!("the store's disk takes no writes: {}", error.kind());
            Error::unavailable(Reason::StoreUnavailable, message)
        })?;
        if !let_go(&self.opened) {
            return Err(broken());
        }
        let opened = Opened::open(&self.path, &self.options)?;
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(opened));
        self.broken.store(false, Ordering::Release);
        tracing::warn!("the store was opened anew after a failed write, and takes writes again");
        Ok(())
    }

    /// Whether the disk takes writes: what fails here fails before the database is closed, so that reads go on.
    fn probe(&self) -> std::io::Result<()> {
        let path = self.path.with_extension("probe");
        let written = std::fs::File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0; PROBE_BYTES])?;
            file.sync_all()
        });
        let removed = std::fs::remove_file(&path);
        written.and(removed)
    }

    /// The same as [`Self::commit`] where opening anew failed and there is nothing to write to.
    fn refuse(&self) -> Next {
        match self.jobs.recv() {
            Ok(Message::Write(job)) => {
                job.fail(broken());
                Next::Commit
            }
            Ok(Message::OpenAnew(answer)) => Next::OpenAnew(answer),
            Ok(Message::Close) | Err(_) => Next::Close,
        }
    }

    /// Waits for a write and makes it, with what waits behind it, one commit.
    fn commit(&self) -> Next {
        let Some(opened) = self.opened() else { return self.refuse() };
        let mut transaction = Transaction::new(&opened);
        let mut jobs: Vec<Box<dyn Job>> = Vec::new();
        let mut due = Due::Never;
        let mut next = Next::Commit;
        while jobs.len() < COMMIT_WRITES && transaction.written_bytes() < COMMIT_BYTES {
            let mut job = match self.next(due) {
                Ok(Message::Write(job)) => job,
                Ok(Message::OpenAnew(answer)) => {
                    next = Next::OpenAnew(answer);
                    break;
                }
                Ok(Message::Close) | Err(RecvTimeoutError::Disconnected) => {
                    next = Next::Close;
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
                self.give_up(jobs);
                return next;
            }
        }
        if !jobs.is_empty() {
            self.make_durable(transaction, jobs, due);
        }
        next
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
                if keep {
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

    fn make_durable(&self, transaction: Transaction<'_>, jobs: Vec<Box<dyn Job>>, due: Due) {
        let durable = due == Due::Now;
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        if let Some(batch) = transaction.into_batch(mode) {
            if let Err(error) = (self.commit)(batch) {
                tracing::error!(%error, "a commit of the store failed; nothing more is written");
                return self.give_up(jobs);
            }
            self.commits.fetch_add(u64::from(durable), Ordering::Relaxed);
        }
        for job in jobs {
            job.answer();
        }
    }

    fn give_up(&self, jobs: Vec<Box<dyn Job>>) {
        self.broken.store(true, Ordering::Release);
        for job in jobs {
            job.fail(broken());
        }
    }
}
