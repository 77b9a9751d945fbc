//! The embedded adapter: fjall for all data, and plain files for the bytes of documents. One process per folder.
//!
//! # Durability
//!
//! Every domain operation is one transaction: one closure on the writer thread, with all its reads. The operation
//! returns after an fsync, which waiting writes share. Only deletions of large items remove their rows in further transactions,
//! each of a bounded size; a row of an index of `system` lets a background job continue them. Reads see whole, durable transactions only. The removal of an
//! open-turn row and unconditional row writes have no fsync of their own; the next commit makes them durable. A turn
//! without approvals costs two fsyncs: one for `accepted` with the row of the open turn, and one for `ended` with the
//! record of the model call, which is sent before it.
//!
//! # Keys
//!
//! Keys are text, with parts joined by `/`. Times and numbers have a fixed width, so that they sort. A value is a byte
//! with the version of its format, then JSON.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `records` | `ORG/row/GROUP/KEY` | a row of a group |
//! | | `ORG/KIND/ID` | the resource with its version and newest revision, or its tombstone |
//! | | `ORG/version/ID` | the version of the live resource, which polls read instead of the resource |
//! | | `ORG/revision/ID/NUMBER` | a revision; the resource has its name |
//! | | `ORG/revision_names/ID/NUMBER` | the objects that name the revision |
//! | | `ORG/text_state/ID` | the state of a resource's text |
//! | | `ORG/op/TARGET/OP` | the op row |
//! | | `ORG/op_data/ID/VERSION` | the data of the op row that created the version |
//! | | `ORG/idempotency/OP` | the target that a request outside turns changed |
//! | | `ORG/name/KIND/NAME` (folded) | the id of the resource that has the name |
//! | | `ORG/reference/REFERENCED/USER` | a mark: a live resource refers to another |
//! | | `ORG/list/KIND/CREATED/ID`, `ORG/list_of/PARENT/KIND/CREATED/ID` | the list row, by which lists filter and order; a child has both |
//! | | `ORG/count/KIND` | the number of list rows |
//! | | `ORG/dependent/PARENT/ID` | a mark: a resource that belongs or belonged to a parent |
//! | | `ORG/thread_of/REFERENCED/THREAD` | a mark: the thread refers to the resource |
//! | | `ORG/usage/AT/KEY` | a model call |
//! | | `ORG/audit/AT/KEY` | an entry of the audit log |
//! | | `ORG/account`, `ORG/account_entry/KIND/ID` | the credit account; its changes |
//! | | `ORG/block/BLOCK`, `ORG/ledger/BLOCK/KEY` | a mark: the block is sealed; a model call in it |
//! | | `ORG/job/JOB/header` | the header of a job, or its tombstone |
//! | | `ORG/job/JOB/fence` | the fence of the header, which polls read instead of the header |
//! | | `ORG/job/JOB/batch/BATCH` | a mark: this write is committed |
//! | | `ORG/job/JOB/outcome/ITEM` | the outcome of an item |
//! | `threads` | `ORG/THREAD/header` | the header, or the tombstone |
//! | | `ORG/THREAD/entry/SEQUENCE` | a journal entry |
//! | | `ORG/THREAD/batch/BATCH` | a mark: this append is committed |
//! | | `ORG/THREAD/request/REQUEST` | the turn of a request |
//! | `text` | `ORG/ID/PAGE` | the text of a page |
//! | | `ORG/ID/boxes/PAGE` | the boxes of the words of a page |
//! | | `ORG/ID/headings/PAGE`, `ORG/ID/elements/PAGE` | the headings of a page; its tables, links and images |
//! | `system` | `pending_text/ORG/ID` | text that is not settled |
//! | | `missing_program/ORG/ID` | text that needs a program that is not installed |
//! | | `probe` | written by health checks |
//! | | `deleted/KIND/AT/ORG/ID` | a deletion that waits for clean-up |
//! | | `request/AT/ORG/OP` | a request outside turns, until its record is removed |
//! | | `op_data/AT/ORG/ID/VERSION` | data of an op row, until it is removed |
//! | | `thread_expiry/AT/ORG/THREAD` | a thread that expires, or a deleted one whose rows are being removed (`AT`: 1970) |
//! | | `job_expiry/AT/ORG/JOB` | a job that expires |
//! | | `open_job/ORG/JOB` | a row of the index of open jobs |
//! | | `open_turn/ORG/THREAD/TURN/EPOCH` | a row of the index of open turns |
//!
//! Only background jobs read the rows of `system`. `ORG` is [`folio_types::OrgId::platform`] for the resources of the
//! platform, such as the organizations themselves.

mod append;
mod audit;
mod credit;
mod deletions;
mod engine;
mod erasure;
mod health;
mod jobs;
mod journal_tail;
mod keys;
mod listing;
mod names;
mod open_turns;
mod ops;
mod reads;
mod references;
mod resources;
mod revisions;
mod rows;
mod texts;
mod threads;
mod transaction;
mod usage;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use folio_types::{Environment, Error, Reason, Result, System};

use self::engine::Engine;
use folio_blobs::files;
use folio_storage::Stores;
use folio_storage::value;

#[derive(Debug, Clone)]
pub struct Options {
    /// The folder is created if it does not exist.
    pub path: PathBuf,
    /// Maximum number of waiting writes (default: 1,024). Further writes are refused with `OVERLOADED`.
    pub queue: usize,
    /// Maximum size of the journals on disk, in bytes (64 MiB, which is also the minimum). A start replays them.
    pub journal_bytes: u64,
    /// Size of the block cache, in bytes (default: 32 MiB).
    pub cache_bytes: u64,
    /// Size from which a keyspace's memtable is flushed, in bytes (default: 16 MiB). With four keyspaces, it limits the
    /// size of the journals.
    pub memtable_bytes: u64,
    /// Free space of the disk, in bytes, that new content must leave (default: 256 MiB). 0: none. Deletions and the ends
    /// of turns use the reserve.
    pub reserve_bytes: u64,
    /// The clock that each write checks. Default: the system.
    pub environment: Arc<dyn Environment>,
}

impl Options {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            queue: 1024,
            journal_bytes: 64 * 1024 * 1024,
            cache_bytes: 32 * 1024 * 1024,
            memtable_bytes: 16 * 1024 * 1024,
            reserve_bytes: 256 * 1024 * 1024,
            environment: Arc::new(System),
        }
    }
}

pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

/// Creates a folder and its missing parents durably.
fn create_folder(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_folder(parent)?;
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_folder(parent),
    }
}

/// An open data folder. Dropping the value closes the folder after the last of its [`Stores`] is dropped.
pub struct EmbeddedStore {
    engine: Arc<Engine>,
    writer: JoinHandle<()>,
    stores: Stores,
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EmbeddedStore")
    }
}

impl EmbeddedStore {
    /// Opens a folder. Blocks while the journals are replayed (well under a second for the default size).
    ///
    /// Errors: `STORE_UNAVAILABLE`; with the code `FAILED_PRECONDITION` if another process has the folder open.
    pub fn open(options: Options) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let path = options.path.display();
            Error::unavailable(Reason::StoreUnavailable, format!("the data folder {path} cannot be created: {error}"))
        };
        create_folder(&options.path).map_err(failed)?;
        let (engine, writer) = Engine::open(&options.path.join("store"), &options)?;
        let reserve = engine.reserve().clone();
        // Opened only under the store's lock, because opening removes temporary files of other processes.
        let blobs = files::FolderBlobStore::open(options.path.join("blobs"), files::Sharing::SingleProcess, reserve)?;
        // The folders of the store and of the blobs may be new.
        sync_folder(&options.path).map_err(failed)?;
        let stores = Stores {
            audit: Arc::new(audit::Audits(Arc::clone(&engine))),
            blobs: Arc::new(blobs),
            credit: Arc::new(credit::Credits(Arc::clone(&engine))),
            erasure: Arc::new(erasure::Erasures(Arc::clone(&engine))),
            health: Arc::new(health::Health(Arc::clone(&engine))),
            jobs: Arc::new(jobs::Jobs(Arc::clone(&engine))),
            open_turns: Arc::new(open_turns::OpenTurns(Arc::clone(&engine))),
            ops: Arc::new(ops::Ops(Arc::clone(&engine))),
            resources: Arc::new(resources::Resources(Arc::clone(&engine))),
            rows: Arc::new(rows::Rows(Arc::clone(&engine))),
            texts: Arc::new(texts::Texts(Arc::clone(&engine))),
            threads: Arc::new(threads::Threads(Arc::clone(&engine))),
            usage: Arc::new(usage::UsageRecords(Arc::clone(&engine))),
            unreadable: engine.unreadable().clone(),
        };
        Ok(Self { engine, writer, stores })
    }

    pub fn stores(&self) -> Stores {
        self.stores.clone()
    }

    /// Counts the commits with an fsync since the folder was opened. The count is lower than the number of writes if
    /// writes shared commits.
    pub fn commits(&self) -> u64 {
        self.engine.commits()
    }

    /// Returns every key with its value as text, for searches by tests.
    #[cfg(feature = "dump")]
    pub fn everything(&self) -> Result<Vec<String>> {
        erasure::everything(&self.engine)
    }

    /// Executes the waiting writes, syncs and closes the folder, so that it can be opened again. Afterwards every
    /// remaining [`Stores`] returns `STORE_UNAVAILABLE`.
    pub async fn close(self) {
        let Self { engine, writer, stores } = self;
        drop(stores);
        let closed = tokio::task::spawn_blocking(move || engine.close(writer)).await;
        if let Err(error) = closed {
            tracing::error!(%error, "closing the embedded store failed");
        }
    }
}

#[cfg(test)]
mod tests;
