//! The CQL adapter: ScyllaDB or Apache Cassandra for all data except the bytes of documents. Many processes share a
//! keyspace.
//!
//! The embedded adapter executes a write in one transaction; this adapter executes it in steps, and a process may stop
//! after each step: `decide.rs` has the table of them. Reads are LOCAL_QUORUM, or LOCAL_SERIAL if they read the result
//! of a condition. The driver never repeats a conditional write; the adapter looks up one with an unknown outcome under
//! its own row (`session.rs`).
//!
//! # Tables
//!
//! Values are the same bytes as the embedded adapter's: a byte with the version of the format, then JSON.
//!
//! | table | partition | rows | written |
//! |---|---|---|---|
//! | `aggregates` | organization, id | static: the record of a resource, its version, whether it is live, the count of its references, the state of its text. By part: op rows, revisions, reference entries, dependents | under conditions only |
//! | `names` | organization, kind, folded name | the id of the resource, and the op that reserved the name | under conditions only |
//! | `idempotency` | organization, op key of a request | the target that it changes | under conditions only |
//! | `threads` | organization, thread | static: header, epoch, version, expiry. By part: entries, rows of batches and of requests | under conditions; imported history before the header, rows of a removed thread after its tombstone |
//! | `text_pages` | organization, resource, generation | the pages of one text | plain; `aggregates` has the valid generation |
//! | `catalogue` | organization, list, term, shard | the rows that lists and searches read | plain, with the version as timestamp |
//! | `system_rows` | index, one of 16 buckets | open turns (with a time to live), texts that wait, deletions, expiring threads, requests | plain: a row is a hint |
//! | `org_rows` | organization, group | encoded rows, such as members and the last uses of tokens | a group under conditions only, or plain only |
//! | `usage_days`, `usage` | organization; organization and day | model calls by time and key | plain: repeated writes of a record are equal |
//! | `credit_accounts` | organization | static: the credit account and its version. By key: its changes | under conditions only |
//! | `credit_blocks` | organization, block | static: whether it is sealed. By key: its ledger, a row for each model call | under conditions only |
//! | `migrations` | name | the keyspace's version; the lock | under conditions only |
//!
//! Partitions are bounded: a thread by its limits, a text by the limits of a document, a shard of the catalogue by an
//! eighth of an organization's rows of one term, a used tag or schema by its users (about 150 bytes each).
//!
//! # Conditional writes
//!
//! `docs/storage.md` lists each with its condition, its reason and its cost.
//!
//! A turn without approvals costs two (its appends), and three for each model call (reserved, settled, recorded). An
//! approved write costs one more for its op, and one for each name and reference.
//!
//! # Erasure
//!
//! A table whose partition key has the column `org` belongs to organizations: `erasure.rs` finds these tables in the
//! schema, so that later tables are erased without a change there. `erasure.rs` lists the system tables that contain
//! organizations in another form.
//!
//! # Lists
//!
//! See `catalogue/mod.rs` for the rows and `catalogue/query.rs` for what a page costs. A document of *n* characters in
//! its name and its metadata's values has about *n* + 3 rows of some 250 bytes, and so has a thread of its title.

mod append;
mod audit;
mod catalogue;
mod cleanup;
mod crash_points;
mod credit;
mod decide;
mod dependents;
mod erasure;
mod error;
mod headers;
mod health;
mod idempotency;
mod keyspace;
mod migrate;
mod names;
mod open_turns;
mod ops;
mod options;
mod record;
mod references;
mod resources;
mod retry;
mod rows;
mod serial_reads;
mod session;
mod table;
mod texts;
mod threads;
mod usage;
mod values;

use std::sync::Arc;

use folio_resources::KINDS;
use folio_types::{OrgId, Result};

pub use migrate::Migrated;
pub use options::Options;

use self::keyspace::Keyspace;
use folio_storage::{AuditStore, BlobStore, ResourceExecutor, RowStore, Stores};

/// The state of a keyspace, as [`inspect`] finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyspaceState {
    /// The version. None: the keyspace does not exist or has no tables yet.
    pub version: Option<i32>,
    /// The version that this build needs.
    pub newest: i32,
}

/// Connects and reads the version of the keyspace; changes nothing.
///
/// Errors: `STORE_UNAVAILABLE` if too few servers answer for a SERIAL read.
pub async fn inspect(options: Options) -> Result<KeyspaceState> {
    let cql = Box::pin(session::Cql::connect(options)).await?;
    Ok(KeyspaceState { version: Box::pin(migrate::current_version(&cql)).await?, newest: migrate::newest() })
}

/// An open keyspace.
#[derive(Clone)]
pub struct CqlStore {
    keyspace: Arc<Keyspace>,
}

impl std::fmt::Debug for CqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CqlStore")
    }
}

impl CqlStore {
    /// Connects, brings the keyspace up to date (one process at a time; many may start at once) and prepares every
    /// statement.
    ///
    /// Errors: `STORE_UNAVAILABLE`; as a failed precondition it means that the keyspace is newer than this build.
    pub async fn open(options: Options) -> Result<Self> {
        Ok(Self { keyspace: Arc::new(Box::pin(Keyspace::open(options)).await?) })
    }

    /// Returns the migration that opening the keyspace executed.
    pub fn migrated(&self) -> Migrated {
        self.keyspace.migrated
    }

    /// Returns the store of resources alone, for callers without a blob store.
    pub fn resources(&self) -> Arc<dyn ResourceExecutor> {
        Arc::new(resources::Resources(Arc::clone(&self.keyspace)))
    }

    /// Returns the store of encoded rows alone.
    pub fn rows(&self) -> Arc<dyn RowStore> {
        Arc::new(rows::Rows(Arc::clone(&self.keyspace)))
    }

    /// Returns the store of audit logs alone.
    pub fn audit(&self) -> Arc<dyn AuditStore> {
        Arc::new(audit::Audits::new(Arc::clone(&self.keyspace)))
    }

    /// Returns the stores of this keyspace together with a blob store.
    pub fn stores(&self, blobs: Arc<dyn BlobStore>) -> Stores {
        let keyspace = || Arc::clone(&self.keyspace);
        Stores {
            audit: self.audit(),
            blobs,
            credit: Arc::new(credit::Credits(keyspace())),
            erasure: Arc::new(erasure::Erasures(keyspace())),
            health: Arc::new(health::Health(keyspace())),
            open_turns: Arc::new(open_turns::OpenTurns(keyspace())),
            ops: Arc::new(ops::Ops(keyspace())),
            resources: self.resources(),
            rows: self.rows(),
            texts: Arc::new(texts::Texts(keyspace())),
            threads: Arc::new(threads::Threads(keyspace())),
            usage: Arc::new(usage::UsageRecords::new(keyspace())),
        }
    }

    /// Returns every row of every table as text, for searches by tests.
    ///
    /// Errors: `STORE_UNAVAILABLE`.
    #[cfg(feature = "dump")]
    pub async fn everything(&self) -> Result<Vec<String>> {
        erasure::everything(&self.keyspace.cql).await
    }

    /// Rewrites the list rows of an organization from its resources, and removes rows without a resource; returns the
    /// number of resources. Reads all resources: for operators.
    ///
    /// Errors: `STORE_UNAVAILABLE`; the call may be repeated.
    pub async fn repair_lists(&self, org: &OrgId) -> Result<u64> {
        let mut items = 0;
        for kind in KINDS {
            items += catalogue::rebuild(&self.keyspace, org, kind).await?;
        }
        Ok(items)
    }
}
