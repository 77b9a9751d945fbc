//! An open keyspace: the session and the statements of every table.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

use folio_types::{Code, Result, Timestamp};

use super::catalogue::{Buckets, Counts};
use super::headers::HeaderCache;
use super::migrate::{self, Migrated};
use super::options::Options;
use super::reference_queue::ReferenceQueues;
use super::session::{ConditionalResult, Cql, Statements};
use super::table::{SystemRow, Tables};
use super::values::micros;
use folio_storage::UnreadableRecords;
use folio_storage::value::{Stored, decode};

/// The state that all stores of the adapter share.
#[derive(Clone)]
pub(crate) struct Keyspace {
    pub(crate) cql: Arc<Cql>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) buckets: Arc<Buckets>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) headers: Arc<HeaderCache>,
    pub(crate) references: Arc<ReferenceQueues>,
    /// The newest bucket of open turns and jobs that this process entered in the directory.
    pub(crate) open_turn_bucket: Arc<AtomicI64>,
    /// The unreadable rows that reads of indexes skip.
    pub(crate) unreadable: UnreadableRecords,
    pub(crate) migrated: Migrated,
}

/// Time for which opening is retried while statements fail: servers that create tables at the same time are slow.
const OPEN_LIMIT: Duration = Duration::from_secs(60);
const OPEN_PAUSE: Duration = Duration::from_millis(500);

/// Migrates the keyspace and prepares every statement. May be repeated.
async fn prepare(cql: &Arc<Cql>) -> Result<(Migrated, Tables)> {
    let migrated = migrate::migrate(cql).await?;
    Ok((migrated, Box::pin(Tables::prepare(cql)).await?))
}

/// Returns true for a variant of Paxos version 1. None: the servers have no setting for it.
fn is_paxos_v1(variant: Option<&str>) -> bool {
    variant.is_some_and(|variant| variant == "v1" || variant.starts_with("v1_"))
}

/// Logs a warning if the servers use Paxos v1, or if their setting cannot be read.
async fn warn_of_paxos_v1(cql: &Cql) {
    // None: ScyllaDB, or a version of Cassandra without this table.
    match cql.first_text("SELECT value FROM system_views.settings WHERE name = 'paxos_variant'").await {
        Ok(variant) if is_paxos_v1(variant.as_deref()) => tracing::warn!(
            "the CQL servers use Paxos v1, whose conditional writes take twice as many round trips: set paxos_variant: v2"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "cannot read the setting paxos_variant of the CQL servers"),
    }
}

impl Keyspace {
    /// Connects, migrates the keyspace and prepares every statement.
    pub(crate) async fn open(options: Options) -> Result<Self> {
        let cql = Arc::new(Cql::connect(options).await?);
        let since = Instant::now();
        let (migrated, tables) = loop {
            match Box::pin(prepare(&cql)).await {
                Ok(prepared) => break prepared,
                Err(error) if error.code != Code::Unavailable || since.elapsed() > OPEN_LIMIT => return Err(error),
                Err(error) => tracing::warn!(%error, "the keyspace cannot be opened; retrying"),
            }
            tokio::time::sleep(OPEN_PAUSE).await;
        };
        warn_of_paxos_v1(&cql).await;
        let tables = Arc::new(tables);
        let (buckets, counts, headers, references) = (Arc::default(), Arc::default(), Arc::default(), Arc::default());
        let (open_turn_bucket, unreadable) = (Arc::default(), UnreadableRecords::default());
        Ok(Self { cql, tables, buckets, counts, headers, references, open_turn_bucket, unreadable, migrated })
    }

    /// Executes a conditional batch, whose statements must access one partition.
    pub(crate) async fn commit(&self, statements: Statements<'_>) -> Result<ConditionalResult> {
        self.cql.conditional_batch(statements).await
    }

    /// Returns the first rows of an index up to a time that can be decoded, with their values, at most `limit`.
    pub(crate) async fn first_rows<T: Stored>(
        &self,
        index: &str,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SystemRow, T)>> {
        // Unreadable rows stay at the start of the index.
        let rows = limit.saturating_add(self.unreadable.count());
        let mut found = Vec::new();
        for row in self.tables.system_rows.first(index, Some(until), rows).await? {
            if let Some(value) = self.decode_row(index, &row.key, &row.value)? {
                found.push((row, value));
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the value of a row of an index. None: the row is unreadable.
    pub(crate) fn decode_row<T: Stored>(&self, index: &str, key: &str, value: &[u8]) -> Result<Option<T>> {
        self.unreadable.skip(format_args!("{index}/{key}"), decode(value))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.cql.options().environment.now()
    }

    /// Returns the time that selects the partition of a row. See [`folio_types::Environment::checked_now`].
    pub(crate) fn checked_now(&self) -> Result<Timestamp> {
        self.cql.options().environment.checked_now()
    }

    pub(crate) fn now_micros(&self) -> i64 {
        micros(self.now())
    }

    /// Returns the time since a time in microseconds. Zero for a time in the future.
    pub(crate) fn age(&self, at_micros: i64) -> Duration {
        let age = self.now_micros().saturating_sub(at_micros);
        Duration::from_micros(u64::try_from(age).unwrap_or_default())
    }

    pub(crate) fn random(&self) -> u128 {
        self.cql.options().environment.random()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_paxos_1_is_reported_and_no_other() {
        for variant in ["v1", "v1_without_linearizable_reads_or_rejected_writes"] {
            assert!(is_paxos_v1(Some(variant)), "{variant}");
        }
        for variant in
            ["v2", "v2_without_linearizable_reads", "v2_without_linearizable_reads_or_rejected_writes", "v10"]
        {
            assert!(!is_paxos_v1(Some(variant)), "{variant}");
        }
        assert!(!is_paxos_v1(None));
    }
}
