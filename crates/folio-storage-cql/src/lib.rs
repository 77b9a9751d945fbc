//! The CQL adapter: ScyllaDB or Apache Cassandra for all data except the bytes of documents. Many processes share a
//! keyspace.
//!
//! The embedded adapter executes a write in one transaction. This adapter executes it in steps, and a process may stop
//! after each step: the table in `decide.rs` lists them. Reads are QUORUM, or SERIAL if they read the result of a
//! conditional write. The driver never repeats a conditional write; the adapter resolves an unknown outcome
//! by reading the write's own row (`session.rs`).
//!
//! # Tables
//!
//! Values are encoded as in the embedded adapter: a byte with the version of the format, then JSON. "Plain" writes have
//! no condition. Tables with their partition keys:
//!
//! - `aggregates` (organization, id): in static columns, the record of a resource, its version, whether it is live, the
//!   count of references to it, the state of its text. Rows by part: op rows, revisions, reference entries, dependents.
//!   Conditional.
//! - `names` (organization, kind, folded name): the id of the resource, and the op that reserved the name. Conditional.
//! - `idempotency` (organization, op key of a request): the target that the request changes. Conditional.
//! - `threads` (organization, thread): in static columns, the header, epoch, version and expiry. Rows by part: entries,
//!   batches, requests. Conditional, except imported history before the header and the removal of rows after the
//!   tombstone.
//! - `text_pages`, `text_boxes` and `text_structure` (organization, resource, generation): the pages of one text, the boxes of its
//!   words, and its headings, tables, links and images.
//!   Plain; `aggregates` has the valid generation.
//! - `list_rows` (organization, list, term, bucket of a week), `list_buckets` (organization, list, term): the items of a
//!   term in the order of creation, and the buckets with items. `list_names` (organization, list, shard): the items by
//!   name. `list_groups` (organization, list, group of characters, shard): the items whose name or metadata contains the
//!   group. Plain, with the version as timestamp: a row is a hint. Only `list_buckets` has a grace period for deleted rows.
//! - `content_sizes` (organization, shard): the bytes of each text and journal. Plain, with the version as timestamp.
//! - `system_rows` (index, one of 16 buckets): texts to extract, deletions, expiring threads and jobs, requests. Plain: a row is a
//!   hint.
//! - `jobs` (organization, job): in static columns, the header, epoch and version. Rows by part: batches, outcomes of
//!   items. Conditional, except the removal of rows after the tombstone.
//! - `open_turns` (bucket of ten seconds, shard): open turns and open jobs, with a time to live. Plain: a row is a hint.
//!   `open_turn_buckets` (day), `open_turn_floor` (name): the buckets with rows, and the first one that scans read. Plain.
//! - `org_rows` (organization, group): encoded rows such as members and the last uses of tokens. A group is either
//!   conditional or plain.
//! - `usage_days` (organization), `usage_buckets` (organization, day), `usage_records` (organization, bucket): the days
//!   and the buckets of five minutes with records, and the model calls by time and key. Plain: repeated writes of a
//!   record are equal. `usage_hours` (organization, day): the sums of each hour, and the time of the last record that
//!   was written after its hour could be summed. Plain: sums before that time are not used.
//! - `audit_hours` (organization), `audit` (organization, hour): the hours with audit entries, and the entries by time
//!   and key. Plain: repeated writes of an entry are equal.
//! - `credit_accounts` (organization): in static columns, the credit account and its version. Rows by key: its changes.
//!   Conditional.
//! - `credit_blocks` (organization, block): in a static column, whether the block is sealed. Rows by key: its ledger,
//!   one row for each model call. Conditional.
//! - `migrations` (name): the version of the keyspace, and the lock of a migration. Conditional.
//!
//! Partitions are bounded: a thread by its limits, a text by the limits of a document, a bucket of a list by the items that
//! an organization creates in a week (about 300 bytes each), a tag or schema by the references to it (about 150 bytes
//! each). A shard of the names has an eighth of an organization's items (about 100 bytes each, so 100 MB for 8 million
//! items), a shard of a group at most as many (about 60 bytes each).
//!
//! # Conditional writes
//!
//! `docs/storage.md` lists each conditional write with its condition, its reason and its cost.
//!
//! A turn without approvals costs two conditional writes (its appends) and two for each model call (reserved,
//! settled). An approved write costs one more for its op, and one for each name and reference.
//!
//! # Erasure
//!
//! A table whose partition key has the column `org` belongs to organizations. `erasure.rs` finds these tables in the
//! schema, so later tables are erased without a change there. Rows of `system_rows` and
//! `open_turns` are erased by their keys.
//!
//! # Lists
//!
//! `catalogue/mod.rs` describes the rows and `catalogue/query.rs` the cost of a page. A document whose name and searchable
//! metadata values have *n* characters together has at most 2 *n* rows of about 60 bytes and a few larger ones; so does a
//! thread with a title of *n* characters.

mod append;
mod audit;
mod catalogue;
mod cleanup;
mod content_sizes;
mod crash_points;
mod credit;
mod datacenters;
mod decide;
mod dependents;
mod erasure;
mod error;
mod headers;
mod health;
mod idempotency;
mod jobs;
mod key_pages;
mod keyspace;
mod migrate;
mod names;
mod open_turns;
mod ops;
mod options;
mod record;
mod reference_queue;
mod references;
mod resources;
mod retry;
mod revisions;
mod rows;
mod serial_read_retry;
mod session;
mod shared_batch;
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

/// The result of [`inspect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyspaceState {
    /// None: the keyspace does not exist or has no tables yet.
    pub version: Option<i32>,
    /// Newest version that this build creates.
    pub newest: i32,
    /// Builds whose newest version is below this one refuse the keyspace. 0: none.
    pub required: i32,
}

/// Connects and reads the state of the keyspace without changing it. Fails with `STORE_UNAVAILABLE` if too few
/// servers answer for a SERIAL read.
pub async fn inspect(options: Options) -> Result<KeyspaceState> {
    let cql = Box::pin(session::Cql::connect(options)).await?;
    Box::pin(migrate::inspect(&cql)).await
}

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
    /// Connects, migrates the keyspace and prepares every statement. Many processes may start at once; one of them
    /// migrates.
    ///
    /// Errors: `STORE_UNAVAILABLE`; with the code `FAILED_PRECONDITION` if a newer build migrated the keyspace
    /// incompatibly.
    pub async fn open(options: Options) -> Result<Self> {
        Ok(Self { keyspace: Arc::new(Box::pin(Keyspace::open(options)).await?) })
    }

    /// Returns the migration that [`Self::open`] executed.
    pub fn migrated(&self) -> Migrated {
        self.keyspace.migrated
    }

    /// Needs no blob store, unlike [`Self::stores`].
    pub fn resources(&self) -> Arc<dyn ResourceExecutor> {
        Arc::new(resources::Resources(Arc::clone(&self.keyspace)))
    }

    /// Needs no blob store, unlike [`Self::stores`].
    pub fn rows(&self) -> Arc<dyn RowStore> {
        Arc::new(rows::Rows(Arc::clone(&self.keyspace)))
    }

    /// Needs no blob store, unlike [`Self::stores`].
    pub fn audit(&self) -> Arc<dyn AuditStore> {
        Arc::new(audit::Audits::new(Arc::clone(&self.keyspace)))
    }

    pub fn stores(&self, blobs: Arc<dyn BlobStore>) -> Stores {
        let keyspace = || Arc::clone(&self.keyspace);
        Stores {
            audit: self.audit(),
            blobs,
            credit: Arc::new(credit::Credits(keyspace())),
            erasure: Arc::new(erasure::Erasures(keyspace())),
            health: Arc::new(health::Health(keyspace())),
            jobs: Arc::new(jobs::Jobs(keyspace())),
            open_turns: Arc::new(open_turns::OpenTurns(keyspace())),
            ops: Arc::new(ops::Ops(keyspace())),
            resources: self.resources(),
            rows: self.rows(),
            texts: Arc::new(texts::Texts(keyspace())),
            threads: Arc::new(threads::Threads(keyspace())),
            usage: Arc::new(usage::UsageRecords::new(keyspace())),
            unreadable: self.keyspace.unreadable.clone(),
        }
    }

    /// Returns every row of every table as text, for searches by tests.
    #[cfg(feature = "dump")]
    pub async fn everything(&self) -> Result<Vec<String>> {
        erasure::everything(&self.keyspace.cql).await
    }

    /// Returns the number of tombstones that each read of a call to the stores reads, for tests on Cassandra. None: the
    /// server lost a trace.
    #[cfg(feature = "dump")]
    pub async fn tombstones<T>(&self, call: impl Future<Output = Result<T>>) -> Result<Option<Vec<u64>>> {
        self.keyspace.cql.tombstones(call).await
    }

    /// Returns for each read of a call to the stores whether only its coordinator read rows, for tests on Cassandra with
    /// one copy of each row. None: the server lost a trace.
    #[cfg(feature = "dump")]
    pub async fn coordinated_by_replica<T>(&self, call: impl Future<Output = Result<T>>) -> Result<Option<Vec<bool>>> {
        self.keyspace.cql.coordinated_by_replica(call).await
    }

    /// Rewrites the list rows of an organization from its resources, and removes rows without a resource; returns the
    /// number of resources. Reads all resources: for operators. May be repeated after an error.
    pub async fn repair_lists(&self, org: &OrgId) -> Result<u64> {
        let mut items = 0;
        for kind in KINDS {
            items += catalogue::rebuild(&self.keyspace, org, kind).await?;
        }
        Ok(items)
    }
}
