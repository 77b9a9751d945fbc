//! The CQL adapter: ScyllaDB or Apache Cassandra for everything but the bytes of documents. Many processes share a keyspace.
//!
//! What the embedded adapter does in one transaction is done here in steps, each of which may be the last: `decide.rs` has
//! the table of them. Reads are LOCAL_QUORUM, or LOCAL_SERIAL where what a condition decided is looked at; a write with a
//! condition is never repeated by the driver, and one whose outcome nobody told is looked up under its own row (`session.rs`).
//!
//! # Tables
//!
//! Values are the same bytes as the embedded adapter's: a byte with the version of the format, then JSON.
//!
//! | table | partition | rows | written |
//! |---|---|---|---|
//! | `aggregates` | organization, id | static: the record of a resource, its version, whether it is live, the count of its references, the state of its text. By part: op rows, revisions, reference entries, dependents | under conditions only |
//! | `names` | organization, kind, folded name | whose it is, and the op that reserved it | under conditions only |
//! | `asked` | organization, op key of a request | the target that it changes | under conditions only |
//! | `threads` | organization, thread | static: header, epoch, version, expiry. By part: entries, rows of batches and of requests | under conditions; imported history before the header, rows of a removed thread after its tombstone |
//! | `text_pages` | organization, document, generation | the pages of one text | plain; `aggregates` says which generation counts |
//! | `catalogue` | organization, list, term, shard | what lists and searches read | plain, with the version as timestamp |
//! | `system_rows` | index, one of 16 buckets | open turns (with a time to live), texts that wait, deletions, expiring threads, requests | plain: a row says where to look |
//! | `tokens` | the id | the token | `IF NOT EXISTS`, then under conditions |
//! | `access` | organization, kind | members; its tokens, and when they were last used | members under conditions only; the rest plain |
//! | `usage_days`, `usage` | organization; organization and day | model calls by time and key | plain: a record that is written again is the same |
//! | `credit_accounts` | organization | static: the account of credit and its version. By key: what changed it | under conditions only |
//! | `credit_blocks` | organization, block | static: whether it is sealed. By key: its ledger, a row for each model call | under conditions only |
//! | `migrations` | name | the keyspace's version; the lock | under conditions only |
//!
//! Partitions are bounded by what they are about: a thread by its limits, a text by a document's, a shard of the catalogue to
//! an eighth of an organization's rows of one term, a used tag or schema by its users (about 150 bytes each).
//!
//! # Conditional writes
//!
//! `docs/storage.md` lists each with its condition, its reason and its cost.
//!
//! A turn without approvals costs two (its appends) and three for each model call (reserved, settled, recorded); each approved write one more for
//! its op and those for its names and references.
//!
//! # Erasure
//!
//! A table whose partition key has the column `org` belongs to organizations: `erasure.rs` finds these tables in the schema, so
//! that one that is made later is erased without more ado. The tables of the system that name an organization otherwise are listed there.
//!
//! # Lists
//!
//! See `catalogue/mod.rs` for the rows and `catalogue/query.rs` for what a page costs. A document of *n* characters in its name
//! and its metadata's values has about *n* + 3 rows of some 250 bytes, and so has a thread of its title.

mod access;
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
use folio_storage::{AccessStore, AuditStore, BlobStore, ResourceExecutor, Stores};

/// A keyspace as [`look`] finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its version; none: there is no such keyspace, or it has no tables yet.
    pub version: Option<i32>,
    /// The version that this build works with.
    pub newest: i32,
}

/// Connects and looks at the keyspace; changes nothing.
///
/// Errors: `STORE_UNAVAILABLE`: no server answers, or not enough of them for a decided read.
pub async fn look(options: Options) -> Result<Found> {
    let cql = Box::pin(session::Cql::connect(options)).await?;
    Ok(Found { version: Box::pin(migrate::look(&cql)).await?, newest: migrate::newest() })
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
    /// Errors: `STORE_UNAVAILABLE`, which as a failed precondition says that the keyspace is newer than this build.
    pub async fn open(options: Options) -> Result<Self> {
        Ok(Self { keyspace: Arc::new(Box::pin(Keyspace::open(options)).await?) })
    }

    /// What opening the keyspace did to it.
    pub fn migrated(&self) -> Migrated {
        self.keyspace.migrated
    }

    /// Members and tokens alone, for a process without blobs.
    pub fn access(&self) -> Arc<dyn AccessStore> {
        Arc::new(access::Access(Arc::clone(&self.keyspace)))
    }

    /// Resources of every kind alone.
    pub fn resources(&self) -> Arc<dyn ResourceExecutor> {
        Arc::new(resources::Resources(Arc::clone(&self.keyspace)))
    }

    /// The audit logs alone.
    pub fn audit(&self) -> Arc<dyn AuditStore> {
        Arc::new(audit::Audits(Arc::clone(&self.keyspace)))
    }

    /// The stores of this keyspace, beside blobs, which are kept elsewhere.
    pub fn stores(&self, blobs: Arc<dyn BlobStore>) -> Stores {
        let keyspace = || Arc::clone(&self.keyspace);
        Stores {
            access: self.access(),
            audit: self.audit(),
            blobs,
            credit: Arc::new(credit::Credits(keyspace())),
            erasure: Arc::new(erasure::Erasures(keyspace())),
            health: Arc::new(health::Health(keyspace())),
            open_turns: Arc::new(open_turns::OpenTurns(keyspace())),
            ops: Arc::new(ops::Ops(keyspace())),
            resources: self.resources(),
            texts: Arc::new(texts::Texts(keyspace())),
            threads: Arc::new(threads::Threads(keyspace())),
            usage: Arc::new(usage::UsageRecords::new(keyspace())),
        }
    }

    /// Every row of every table of the keyspace, as text: what a search for words goes through.
    ///
    /// Errors: `STORE_UNAVAILABLE`.
    #[cfg(feature = "dump")]
    pub async fn everything(&self) -> Result<Vec<String>> {
        erasure::everything(&self.keyspace.cql).await
    }

    /// Rewrites the rows that lists and searches of an organization read from its resources, and removes rows that lead nowhere;
    /// returns the number of resources. Reads all of them: for an operator.
    ///
    /// Errors: `STORE_UNAVAILABLE`; it may be run again.
    pub async fn repair_lists(&self, org: &OrgId) -> Result<u64> {
        let mut items = 0;
        for kind in KINDS {
            items += catalogue::rebuild(&self.keyspace, org, kind).await?;
        }
        Ok(items)
    }
}
