//! The open database with its reads and writes. Only the thread of [`super::writer`] writes.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch as WriteBatch};
use folio_blobs::DiskReserve;
use folio_types::{Environment, Error, Reason, Result};
use tokio::sync::oneshot;

use super::journal_tail::open_repaired;
use super::keys::Space;
use super::reads::{Range, Reads as _, View};
use super::transaction::Transaction;
use super::value::Stored;
use super::writer::{Commit, Message, WriteTask, Writer, poisoned_error, stopped};
use super::{Options, sync_folder};
use folio_storage::{UnreadableRecords, spans};

/// Maximum total size of waiting large writes, in bytes. A larger write is accepted only if no large write waits.
const QUEUED_BYTES: usize = 64 * 1024 * 1024;
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The value of `db.system.name` in spans.
const SYSTEM: &str = "fjall";
/// Time limit for reads in progress when the store closes.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// Number of threads that flush and compact. With more than one, fjall 3.1 reserves the first for flushes, and that thread
/// repeats the message of a waiting compaction without a pause, at the cost of a core, until another thread is free.
const WORKER_THREADS: usize = 1;

/// Folder of a database that contains a folder for each keyspace.
const KEYSPACES: &str = "keyspaces";
/// File that fjall writes last when it creates a database, and its minimum size in bytes.
const VERSION: (&str, usize) = ("version", 4);

/// Removes a database whose creation a loss of power interrupted: fjall can neither open nor create it. Such a database
/// has no keyspace.
fn remove_unfinished(path: &Path) -> std::io::Result<()> {
    // Data that was lost is missing or zero.
    let is_written = |version: Vec<u8>| version.len() >= VERSION.1 && !version.contains(&0);
    let has_version = std::fs::read(path.join(VERSION.0)).is_ok_and(is_written);
    let has_keyspaces = || path.join(KEYSPACES).read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if has_version || !path.is_dir() || has_keyspaces() {
        return Ok(());
    }
    // Another process that creates the database has its lock.
    let lock = File::open(path.join("lock"));
    if lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err()) {
        return Ok(());
    }
    std::fs::remove_dir_all(path)
}

pub(crate) struct OpenDatabase {
    pub(crate) db: Database,
    records: Keyspace,
    threads: Keyspace,
    text: Keyspace,
    system: Keyspace,
}

impl OpenDatabase {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        let failed = |error: fjall::Error| match error {
            fjall::Error::Locked => Error::precondition(
                Reason::StoreUnavailable,
                format!("the data folder {} is in use by another process", path.display()),
            ),
            error => Error::unavailable(
                Reason::StoreUnavailable,
                format!("the store in {} cannot be opened: {error}", path.display()),
            ),
        };
        let unusable = |error: std::io::Error| failed(error.into());
        remove_unfinished(path).map_err(unusable)?;
        let open = || {
            Database::builder(path)
                .max_journaling_size(options.journal_bytes.max(64 * 1024 * 1024))
                .cache_size(options.cache_bytes)
                .worker_threads(WORKER_THREADS)
                .open()
        };
        let db = open_repaired(path, open).map_err(failed)?;
        let settings = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        let space = |name| db.keyspace(name, settings).map_err(failed);
        let (records, threads, text, system) = (space("records")?, space("threads")?, space("text")?, space("system")?);
        // fjall syncs a new folder of a keyspace, but not the folder that contains it.
        sync_folder(&path.join(KEYSPACES)).map_err(unusable)?;
        Ok(Self { db, records, threads, text, system })
    }

    pub(crate) fn space(&self, space: Space) -> &Keyspace {
        match space {
            Space::Records => &self.records,
            Space::Threads => &self.threads,
            Space::Text => &self.text,
            Space::System => &self.system,
        }
    }
}

fn overloaded() -> Error {
    Error::exhausted(Reason::StoreUnavailable, "too many writes are queued in the store; retry later")
        .retry_after(RETRY_AFTER)
}

/// The reserved bytes of a waiting write. Dropping the value releases them.
struct QueuedBytesPermit {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl QueuedBytesPermit {
    /// Reserves bytes. None: too many bytes are reserved.
    fn try_reserve(bytes: usize, all: &Arc<AtomicUsize>) -> Option<Self> {
        let before = all.fetch_add(bytes, Ordering::AcqRel);
        let permit = Self { bytes, all: Arc::clone(all) };
        (before == 0 || before.saturating_add(bytes) <= QUEUED_BYTES).then_some(permit)
    }
}

impl Drop for QueuedBytesPermit {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The open database, shared with the writer, which can reopen it. None while the database is closed.
pub(super) type SharedDatabase = Arc<RwLock<Option<Arc<OpenDatabase>>>>;

/// Closes the database after all reads in progress end. Returns false if a read exceeds the time limit; the database
/// then remains open.
pub(super) fn close_when_idle(current: &SharedDatabase) -> bool {
    let taken = current.write().unwrap_or_else(PoisonError::into_inner).take();
    let end = Instant::now() + CLOSE_WAIT;
    while taken.as_ref().is_some_and(|opened| Arc::strong_count(opened) > 1) {
        if Instant::now() >= end {
            *current.write().unwrap_or_else(PoisonError::into_inner) = taken;
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

pub(crate) struct Engine {
    opened: SharedDatabase,
    queue: SyncSender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    is_poisoned: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    environment: Arc<dyn Environment>,
    reserve: DiskReserve,
    unreadable: UnreadableRecords,
}

impl Engine {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<(Arc<Self>, JoinHandle<()>)> {
        Self::open_with(path, options, WriteBatch::commit)
    }

    /// Opens the folder and starts a writer that commits batches with `commit`.
    fn open_with(path: &Path, options: &Options, commit: Commit) -> Result<(Arc<Self>, JoinHandle<()>)> {
        let opened: SharedDatabase = Arc::new(RwLock::new(Some(Arc::new(OpenDatabase::open(path, options)?))));
        let (queue, messages) = sync_channel(options.queue.max(1));
        let is_poisoned = Arc::new(AtomicBool::new(false));
        let commits = Arc::new(AtomicU64::new(0));
        let writer = Writer {
            opened: Arc::clone(&opened),
            path: path.to_owned(),
            options: options.clone(),
            messages,
            is_poisoned: Arc::clone(&is_poisoned),
            commits: Arc::clone(&commits),
            commit,
        };
        let thread = std::thread::Builder::new()
            .name("folio-store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| {
                Error::unavailable(Reason::StoreUnavailable, format!("the writer thread cannot be started: {error}"))
            })?;
        let queued_bytes = Arc::default();
        let environment = Arc::clone(&options.environment);
        let reserve = DiskReserve::new(options.path.clone(), options.reserve_bytes);
        let unreadable = UnreadableRecords::default();
        let engine = Self { opened, queue, queued_bytes, is_poisoned, commits, environment, reserve, unreadable };
        Ok((Arc::new(engine), thread))
    }

    /// Counts the commits with an fsync.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// The space that new content must leave on the disk.
    pub(crate) fn reserve(&self) -> &DiskReserve {
        &self.reserve
    }

    /// The unreadable rows that reads of indexes skip.
    pub(crate) fn unreadable(&self) -> &UnreadableRecords {
        &self.unreadable
    }

    fn opened(&self) -> Result<Arc<OpenDatabase>> {
        self.opened.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(stopped)
    }

    /// Runs a write in its own transaction and returns when the write is durable. If `run` fails, nothing is written.
    ///
    /// Errors other than those of `run`: `OVERLOADED` (not started), `STORE_UNAVAILABLE` (the outcome is unknown).
    pub(crate) async fn write<T, F>(&self, run: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    {
        spans::measured(SYSTEM, "write", self.send(0, true, run)).await
    }

    /// Runs a write as [`Self::write`] does. The `bytes` of its payload count against [`QUEUED_BYTES`].
    pub(crate) async fn write_large<T, F>(&self, bytes: usize, run: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    {
        spans::measured(SYSTEM, "write", self.send(bytes, true, run)).await
    }

    /// Runs a write as [`Self::write`] does, but without an fsync of its own: the write survives the end of the
    /// process, but not a loss of power.
    pub(crate) async fn write_lazily<T, F>(&self, run: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    {
        spans::measured(SYSTEM, "write_lazily", self.send(0, false, run)).await
    }

    /// Removes keys as [`Self::write_lazily`] does.
    pub(crate) async fn remove_lazily(&self, space: Space, keys: Vec<Vec<u8>>) -> Result<()> {
        self.write_lazily(move |transaction| {
            for key in keys {
                transaction.remove(space, key);
            }
            Ok(())
        })
        .await
    }

    async fn send<T, F>(&self, bytes: usize, durable: bool, run: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Transaction<'_>) -> Result<T> + Send + 'static,
    {
        if self.is_poisoned.load(Ordering::Acquire) {
            return Err(poisoned_error());
        }
        self.environment.check_clock()?;
        let permit = QueuedBytesPermit::try_reserve(bytes, &self.queued_bytes).ok_or_else(overloaded)?;
        let (answer, answered) = oneshot::channel();
        let run = move |transaction: &mut Transaction<'_>| {
            let outcome = run(transaction);
            drop(permit);
            outcome
        };
        let write = Box::new(WriteTask::new(run, durable, answer));
        self.enqueue(Message::Write(write))?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn enqueue(&self, message: Message) -> Result<()> {
        self.queue.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => overloaded(),
            TrySendError::Disconnected(_) => stopped(),
        })
    }

    /// Reopens the database after a failed write, if its disk accepts writes again.
    pub(crate) async fn recover(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        self.enqueue(Message::Reopen(answer))?;
        answered.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Reads on the calling thread. For a few keys, about a microsecond each.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&View<'_>) -> Result<T>) -> Result<T> {
        let opened = self.opened()?;
        read(&View::new(&opened))
    }

    /// Returns the first values of the range of an index that can be decoded, at most `limit`.
    pub(crate) async fn scan_index<T: Stored + Send + 'static>(&self, range: Range, limit: usize) -> Result<Vec<T>> {
        let unreadable = self.unreadable.clone();
        self.scan(move |view| view.readable(range, limit, &unreadable)).await
    }

    /// Reads on a blocking thread. For longer reads.
    pub(crate) async fn scan<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&View<'_>) -> Result<T> + Send + 'static,
    {
        let opened = self.opened()?;
        let reading = tokio::task::spawn_blocking(move || read(&View::new(&opened)));
        spans::measured(SYSTEM, "scan", async {
            let fault = |error| Err(Error::internal(format!("a read of the store failed: {error}")));
            reading.await.unwrap_or_else(fault)
        })
        .await
    }

    /// Executes the waiting writes, ends the writer, waits for the reads in progress, and closes the folder.
    pub(crate) fn close(&self, writer: JoinHandle<()>) {
        if self.queue.send(Message::Close).is_ok() {
            let _ = writer.join();
        }
        if !close_when_idle(&self.opened) {
            tracing::warn!("a read exceeded 10 s while the store closed; the folder stays open until the read ends");
            self.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_storage::value::Count;

    #[test]
    fn waiting_large_writes_are_bounded_and_one_is_always_accepted() {
        let all = Arc::default();
        let large = QueuedBytesPermit::try_reserve(QUEUED_BYTES * 2, &all);
        assert!(large.is_some());
        assert!(QueuedBytesPermit::try_reserve(1, &all).is_none());
        drop(large);
        let half = QueuedBytesPermit::try_reserve(QUEUED_BYTES / 2, &all);
        let other = QueuedBytesPermit::try_reserve(QUEUED_BYTES / 2, &all);
        assert!(half.is_some() && other.is_some());
        assert!(QueuedBytesPermit::try_reserve(1, &all).is_none());
        drop((half, other));
        assert_eq!(all.load(Ordering::Acquire), 0);
    }

    fn key() -> Vec<u8> {
        crate::keys::count(&folio_types::OrgId::derive(&["org"]), "tag")
    }

    async fn count(engine: &Engine) -> u64 {
        engine.read(|view| view.read::<Count>(Space::Records, &key())).unwrap().map_or(0, |Count(count)| count)
    }

    async fn add(engine: &Engine, after: fn() -> Result<()>) -> Result<()> {
        let add = move |transaction: &mut Transaction<'_>| {
            let Count(before) = transaction.read(Space::Records, &key())?.unwrap_or_default();
            transaction.put(Space::Records, key(), &Count(before + 1))?;
            after()
        };
        engine.write(add).await
    }

    #[tokio::test]
    async fn a_failed_write_changes_nothing_and_affects_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::at(folder.path());
        let (engine, writer) = Engine::open(folder.path(), &options).unwrap();
        let all = (0..20).map(|number| {
            let refuse: fn() -> Result<()> = || Err(Error::internal("refused"));
            add(&engine, if number % 2 == 0 { || Ok(()) } else { refuse })
        });
        let answers = futures::future::join_all(all).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10);
        assert_eq!(count(&engine).await, 10);
        engine.close(writer);
    }

    #[tokio::test]
    async fn after_a_panic_writes_fail_and_reads_succeed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::at(folder.path());
        let (engine, writer) = Engine::open(folder.path(), &options).unwrap();
        add(&engine, || Ok(())).await.unwrap();
        let answer = add(&engine, || panic!("a fault")).await.unwrap_err();
        assert_eq!(answer.reason, Reason::StoreUnavailable);
        for _ in 0..2 {
            let later = add(&engine, || Ok(())).await.unwrap_err();
            assert!(later.reason == Reason::StoreUnavailable && later.message.contains("reopened"), "{later}");
        }
        assert_eq!(count(&engine).await, 1);
        engine.close(writer);
        let (engine, writer) = Engine::open(folder.path(), &options).unwrap();
        assert_eq!(count(&engine).await, 1);
        add(&engine, || Ok(())).await.unwrap();
        engine.close(writer);
    }

    #[tokio::test]
    async fn a_broken_store_accepts_writes_after_it_is_reopened() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::at(folder.path());
        let (engine, writer) = Engine::open(folder.path(), &options).unwrap();
        engine.recover().await.unwrap();
        add(&engine, || Ok(())).await.unwrap();
        for round in 1..3 {
            assert!(add(&engine, || panic!("a fault")).await.is_err());
            assert!(add(&engine, || Ok(())).await.is_err());
            engine.recover().await.unwrap();
            assert_eq!(count(&engine).await, round);
            add(&engine, || Ok(())).await.unwrap();
        }
        engine.close(writer);
        assert!(engine.recover().await.is_ok(), "the store is not broken");
        assert_eq!(add(&engine, || Ok(())).await.unwrap_err().reason, Reason::StoreUnavailable);
    }

    #[tokio::test]
    async fn after_a_failed_commit_every_later_write_fails() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::at(folder.path());
        let (engine, writer) = Engine::open_with(folder.path(), &options, |_| Err(fjall::Error::Poisoned)).unwrap();
        for _ in 0..2 {
            let answer = add(&engine, || Ok(())).await.unwrap_err();
            assert_eq!(answer.reason, Reason::StoreUnavailable);
        }
        assert_eq!(count(&engine).await, 0);
        engine.close(writer);
    }
}
