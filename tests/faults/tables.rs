//! Reads the tables directly, without the storage adapter.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, anyhow};
use folio_history::journal;
use folio_history::thread::{RequestRow, ThreadRecord};
use folio_types::Timestamp;
use folio_types::op::OpRow;
use futures::TryStreamExt as _;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::checker::{ObservedAccount, ObservedAggregate, ObservedAuditEntry, ObservedThread};

pub struct Tables {
    pub(super) session: Session,
}

/// A row of the index of open turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedOpenTurn {
    pub thread: String,
    pub turn: u32,
    pub epoch: u64,
    /// Number of the ten seconds that select the partition.
    pub bucket: i64,
    pub written_at: Timestamp,
    /// True if the directory of the buckets, which sweeps read, contains the bucket.
    pub is_listed: bool,
}

/// Rows of one partition, grouped by the column `part`. Each row is a key and a value.
type Parts = BTreeMap<String, Vec<(String, Vec<u8>)>>;

struct ThreadRows {
    live: bool,
    fence: (u64, u64),
    header: Vec<u8>,
    creation: Option<String>,
    parts: Parts,
}

struct AggregateRows {
    live: bool,
    version: Option<u64>,
    record: Vec<u8>,
    parts: Parts,
}

impl Tables {
    pub async fn open(cql: &str, keyspace: &str) -> Result<Self> {
        let servers: Vec<&str> = cql.split(',').collect();
        let session = SessionBuilder::new().known_nodes(&servers).build().await?;
        session.use_keyspace(keyspace, false).await?;
        Ok(Self { session })
    }

    pub async fn drop_keyspace(&self, keyspace: &str) -> Result<()> {
        self.session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await?;
        Ok(())
    }

    /// Returns every live thread.
    pub async fn threads(&self) -> Result<Vec<ObservedThread>> {
        type Row = (
            String,
            String,
            Option<String>,
            Option<String>,
            Option<bool>,
            Option<i64>,
            Option<i64>,
            Option<Vec<u8>>,
            Option<String>,
            Option<Vec<u8>>,
        );
        let text = "SELECT org, id, part, key, live, epoch, version, header, creation, value FROM threads";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        let mut found: BTreeMap<(String, String), ThreadRows> = BTreeMap::new();
        while let Some((org, id, part, key, live, epoch, version, header, creation, value)) = rows.try_next().await? {
            let thread = found.entry((org, id)).or_insert_with(|| ThreadRows {
                live: live == Some(true),
                fence: (epoch.unwrap_or(0).cast_unsigned(), version.unwrap_or(0).cast_unsigned()),
                header: header.unwrap_or_default(),
                creation,
                parts: BTreeMap::new(),
            });
            if let (Some(part), Some(key)) = (part, key) {
                thread.parts.entry(part).or_default().push((key, value.unwrap_or_default()));
            }
        }
        found.into_iter().filter(|(_, rows)| rows.live).map(|((org, id), rows)| thread(&org, &id, &rows)).collect()
    }

    /// Returns every credit account. Accounts are read before the ledgers of their blocks, so the ledgers of closed
    /// blocks are final.
    pub async fn accounts(&self) -> Result<Vec<ObservedAccount>> {
        type Row = (String, Option<String>, Option<Vec<u8>>, Option<Vec<u8>>);
        let text = "SELECT org, key, account, value FROM credit_accounts";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        let mut found: BTreeMap<String, ObservedAccount> = BTreeMap::new();
        while let Some((org, key, account, value)) = rows.try_next().await? {
            let seen = match found.entry(org) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let (org, account) = (entry.key().parse()?, read(&account.unwrap_or_default())?);
                    entry.insert(ObservedAccount { org, account, entries: Vec::new(), ledgers: BTreeMap::new() })
                }
            };
            if key.is_some() {
                seen.entries.push(read(&value.unwrap_or_default())?);
            }
        }
        type Call = (String, String, Option<String>, Option<Vec<u8>>);
        let text = "SELECT org, block, key, value FROM credit_blocks";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Call>()?;
        while let Some((org, block, key, value)) = rows.try_next().await? {
            if let (Some(seen), Some(_)) = (found.get_mut(&org), key) {
                seen.ledgers.entry(block.parse()?).or_default().push(read(&value.unwrap_or_default())?);
            }
        }
        Ok(found.into_values().collect())
    }

    /// Returns every entry of every audit log.
    pub async fn audit(&self) -> Result<Vec<ObservedAuditEntry>> {
        let mut rows = self.session.query_iter("SELECT value FROM audit", ()).await?.rows_stream::<(Vec<u8>,)>()?;
        let mut found = Vec::new();
        while let Some((value,)) = rows.try_next().await? {
            found.push(audit_entry(&value)?);
        }
        Ok(found)
    }

    /// Returns the index of open turns. Omits rows in buckets below the floor (the first bucket that scans read), because
    /// no sweep reads them.
    pub async fn open_turns(&self) -> Result<Vec<ObservedOpenTurn>> {
        let text = "SELECT bucket FROM open_turn_floor WHERE name = 'floor'";
        let floor = self.session.query_iter(text, ()).await?.rows_stream::<(i64,)>()?.try_next().await?;
        let text = "SELECT bucket FROM open_turn_buckets";
        let listed = self.session.query_iter(text, ()).await?.rows_stream::<(i64,)>()?;
        let listed: BTreeSet<i64> = listed.map_ok(|(bucket,)| bucket).try_collect().await?;
        let text = "SELECT bucket, key, WRITETIME(value) FROM open_turns";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<(i64, String, i64)>()?;
        let mut found = Vec::new();
        while let Some((bucket, key, written)) = rows.try_next().await? {
            if floor.is_none_or(|(floor,)| bucket >= floor)
                && let [_, thread, turn, epoch] = key.split('/').collect::<Vec<_>>().as_slice()
            {
                found.push(ObservedOpenTurn {
                    thread: (*thread).to_owned(),
                    turn: turn.parse()?,
                    epoch: epoch.parse()?,
                    bucket,
                    written_at: Timestamp::from_microsecond(written)?,
                    is_listed: listed.contains(&bucket),
                });
            }
        }
        Ok(found)
    }

    /// Returns the number of rows of each partition of a table. `partition_key`: the columns, separated by commas.
    pub async fn partition_sizes(&self, table: &str, partition_key: &str) -> Result<Vec<u64>> {
        // With COUNT and GROUP BY, Cassandra refused a later page of a large table ("Invalid value for the paging state"). The rows of
        // a partition follow each other.
        let text = format!("SELECT token({partition_key}) FROM {table}");
        repeated(async || {
            let mut rows = self.session.query_iter(text.as_str(), ()).await?.rows_stream::<(i64,)>()?;
            let (mut found, mut last) = (Vec::new(), None);
            while let Some((token,)) = rows.try_next().await? {
                count_row(&mut found, last.replace(token) != Some(token));
            }
            Ok(found)
        })
        .await
    }

    /// Returns the number of rows of each partition of `system_rows`, by index.
    pub async fn index_sizes(&self) -> Result<BTreeMap<String, Vec<u64>>> {
        let text = "SELECT name, token(name, bucket) FROM system_rows";
        repeated(async || {
            let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<(String, i64)>()?;
            let (mut found, mut last) = (BTreeMap::<String, Vec<u64>>::new(), None);
            while let Some((name, token)) = rows.try_next().await? {
                count_row(found.entry(name).or_default(), last.replace(token) != Some(token));
            }
            Ok(found)
        })
        .await
    }

    /// Returns the versions of all jobs.
    async fn job_versions(&self) -> Result<BTreeMap<(String, String), u64>> {
        let text = "SELECT DISTINCT org, id, version FROM jobs";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<(String, String, Option<i64>)>()?;
        let mut found = BTreeMap::new();
        while let Some((org, id, version)) = rows.try_next().await? {
            found.extend(version.map(|version| ((org, id), version.cast_unsigned())));
        }
        Ok(found)
    }

    /// Returns every aggregate, including deleted ones. The op row of a job is in the table `aggregates` under the id
    /// of the job; the version of the job is in the table `jobs`.
    pub async fn aggregates(&self) -> Result<Vec<ObservedAggregate>> {
        type Row = (
            String,
            String,
            Option<String>,
            Option<String>,
            Option<bool>,
            Option<i64>,
            Option<Vec<u8>>,
            Option<Vec<u8>>,
        );
        let text = "SELECT org, id, part, key, live, version, record, value FROM aggregates";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        let mut found: BTreeMap<(String, String), AggregateRows> = BTreeMap::new();
        while let Some((org, id, part, key, live, version, record, value)) = rows.try_next().await? {
            let aggregate = found.entry((org, id)).or_insert_with(|| AggregateRows {
                live: live == Some(true),
                version: version.map(i64::cast_unsigned),
                record: record.unwrap_or_default(),
                parts: BTreeMap::new(),
            });
            if let (Some(part), Some(key)) = (part, key) {
                aggregate.parts.entry(part).or_default().push((key, value.unwrap_or_default()));
            }
        }
        for (job, version) in self.job_versions().await? {
            if let Some(rows) = found.get_mut(&job) {
                rows.version = Some(version);
            }
        }
        found.into_iter().map(|((org, id), rows)| aggregate(org, id, &rows)).collect()
    }
}

/// Adds a row to the last number of a list, or begins a new number.
fn count_row(sizes: &mut Vec<u64>, is_new_partition: bool) {
    match sizes.last_mut() {
        Some(rows) if !is_new_partition => *rows += 1,
        _ => sizes.push(1),
    }
}

/// Repeats a count of a table up to two times, because a busy server can exceed its time limit for one count.
async fn repeated<T>(count: impl AsyncFn() -> Result<T>) -> Result<T> {
    for _ in 0..2 {
        match count().await {
            Ok(result) => return Ok(result),
            Err(error) => eprintln!("the count of rows is repeated: {error:#}"),
        }
    }
    count().await
}

fn audit_entry(bytes: &[u8]) -> Result<ObservedAuditEntry> {
    let entry: Value = read(bytes)?;
    let text = |name: &str| entry[name].as_str();
    Ok(ObservedAuditEntry {
        call: text("call").map(str::parse).transpose()?,
        kind: text("kind").context("an audit entry without a kind")?.to_owned(),
        user: text("user").map(str::parse).transpose()?,
        ok: text("outcome") == Some("ok"),
    })
}

fn thread(org: &str, id: &str, rows: &ThreadRows) -> Result<ObservedThread> {
    let ThreadRecord::Live(header) = read(&rows.header).with_context(|| format!("header of {id}"))? else {
        return Err(anyhow!("the column of {id} marks the thread as live, but its record is a tombstone"));
    };
    let imported = rows.creation.as_ref().map(|creation| format!("imported {creation}"));
    let parts = imported.iter().map(String::as_str).chain(["entry"]);
    let mut entries = Vec::new();
    for (key, value) in parts.filter_map(|part| rows.parts.get(part)).flatten() {
        let entry: journal::Entry = read(value).with_context(|| format!("entry {key} of {id}"))?;
        entries.push((key.parse()?, entry));
    }
    let requests = rows.parts.get("request").into_iter().flatten();
    let requests: Result<Vec<RequestRow>> = requests.map(|(_, value)| read(value)).collect();
    Ok(ObservedThread {
        org: org.parse()?,
        id: id.parse()?,
        epoch: rows.fence.0,
        version: rows.fence.1,
        header: *header,
        entries,
        batches: rows.parts.get("batch").map_or(0, Vec::len) as u64,
        requests: requests?,
    })
}

fn aggregate(org: String, id: String, rows: &AggregateRows) -> Result<ObservedAggregate> {
    let ops = rows.parts.get("op").into_iter().flatten();
    let ops: Result<Vec<OpRow>> = ops.map(|(_, value)| read(value)).collect();
    let record: Value = if rows.record.is_empty() { Value::Null } else { read(&rows.record)? };
    let live = &record["live"];
    let name = live["name"].as_str().or_else(|| live["latest"]["name"].as_str());
    Ok(ObservedAggregate {
        org,
        id,
        version: rows.version,
        is_live: rows.live,
        name: name.map(str::to_owned),
        live: live.clone(),
        ops: ops?,
        revisions: rows.parts.get("revision").map_or(0, Vec::len) as u64,
    })
}

/// Parses a stored value: a byte with the version of its format, then JSON.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((1, json)) => Ok(serde_json::from_slice(json)?),
        other => Err(anyhow!("format of a stored value: {:?}, expected 1", other.map(|(version, _)| version))),
    }
}
