//! The indexes of open turns and of open jobs.
//!
//! The time of a row selects its bucket of ten seconds. A removed row leaves a tombstone, so a scan must not read a bucket
//! for long: [`OpenTurns::compact`] copies the rows that remain in an old bucket to a later one and raises the floor, the
//! first bucket that scans read. The directory of buckets spares scans the buckets without rows, of which there are many
//! after the processes were stopped for days.
//!
//! | step | in bucket |
//! |---|---|
//! | a row is inserted; the insert fails unless it is acknowledged by the end of bucket `b` + [`INSERTED_WITHIN`] | `b` |
//! | a scan reads the row | `b` |
//! | from bucket `b` + [`KEPT_FOR`] + 1 on, the row is copied, and acknowledged like an inserted one | `c` > now |
//! | the partition of the row is deleted, and the floor raised above it | `b` |
//!
//! No row is lost: 30 s are between the last acknowledgment of an insert and the first read of a compaction, and a process
//! whose clock is wrong by more than 2 s writes nothing. Concurrent compactions copy a row to the same bucket, because the
//! distance is a multiple of [`KEPT_FOR`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use folio_history::job::OpenJobRow;
use folio_history::thread::OpenTurnRow;
use folio_types::{Error, Reason, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::session::Statements;
use super::table::{OPEN_TURN_SHARDS, open_turn_shard};
use super::values::{micros, time_to_live};
use folio_storage::OpenTurnStore;
use folio_storage::value::{Stored, encode};

/// Name of the rows in the log.
const TABLE: &str = "open_turns";
/// Time range of a bucket, in microseconds.
const BUCKET: i64 = 10 * 1_000_000;
const BUCKETS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000 / BUCKET;
/// Number of buckets after its own in which an insert may be acknowledged.
const INSERTED_WITHIN: i64 = 3;
/// Number of buckets after its own for which a row stays in its bucket.
const KEPT_FOR: i64 = 6;
/// Age in days at which the directory forgets a bucket. The rows of open turns and jobs expire earlier.
const DIRECTORY_DAYS: i64 = 60;
const DIRECTORY_TTL: i32 = 60 * 24 * 60 * 60;
/// Maximum number of partitions that a scan reads concurrently.
const PARTITIONS_AT_ONCE: usize = 8;
/// Maximum number of rows of a batch, about 300 bytes each. Servers refuse batches of more than 50 KiB.
const BATCH_ROWS: usize = 50;

/// A row of an index of open work. The indexes share their tables and the directory of buckets; each has its own shards
/// and its own floor.
pub(crate) trait OpenRow: Stored + Clone + Send + Sync {
    /// The name of the floor.
    const FLOOR: &'static str;
    /// The first of the index's [`OPEN_TURN_SHARDS`] shards.
    const FIRST_SHARD: i32;

    /// Returns the key, which begins with the organization.
    fn key(&self) -> String;

    fn at(&self) -> Timestamp;

    /// Returns the time at which the row expires.
    fn until(&self) -> Timestamp;

    /// Replaces the time that selects the bucket.
    #[must_use]
    fn moved(self, at: Timestamp) -> Self;
}

impl OpenRow for OpenTurnRow {
    const FLOOR: &'static str = "floor";
    const FIRST_SHARD: i32 = 0;

    fn key(&self) -> String {
        format!("{}/{}/{:010}/{:020}", self.org, self.turn.thread, self.turn.number, self.epoch)
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn until(&self) -> Timestamp {
        self.until
    }

    fn moved(self, at: Timestamp) -> Self {
        Self { at, ..self }
    }
}

impl OpenRow for OpenJobRow {
    const FLOOR: &'static str = "jobs";
    const FIRST_SHARD: i32 = OPEN_TURN_SHARDS;

    fn key(&self) -> String {
        format!("{}/{}", self.org, self.job)
    }

    fn at(&self) -> Timestamp {
        self.at
    }

    fn until(&self) -> Timestamp {
        self.until
    }

    fn moved(self, at: Timestamp) -> Self {
        Self { at, ..self }
    }
}

pub(crate) struct OpenTurns(pub(crate) Arc<Keyspace>);

#[async_trait]
impl OpenTurnStore for OpenTurns {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        remove(&self.0, rows).await
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        scan(&self.0, after, limit).await
    }

    async fn compact(&self) -> Result<()> {
        compact::<OpenTurnRow>(&self.0).await
    }
}

pub(crate) async fn remove<R: OpenRow>(keyspace: &Keyspace, rows: &[R]) -> Result<()> {
    let now = bucket(keyspace.checked_now()?);
    let mut partitions = BTreeMap::<(i64, i32), Vec<String>>::new();
    for row in rows {
        let key = row.key();
        for bucket in positions(bucket(row.at()), now) {
            partitions.entry((bucket, shard::<R>(&key))).or_default().push(key.clone());
        }
    }
    for (partition, keys) in partitions {
        for keys in keys.chunks(BATCH_ROWS) {
            let statements = keys.iter().map(|key| keyspace.tables.open_turns.remove(partition, key)).collect();
            keyspace.cql.write_all(statements).await?;
        }
    }
    Ok(())
}

pub(crate) async fn scan<R: OpenRow>(keyspace: &Keyspace, after: Option<&R>, limit: usize) -> Result<Vec<R>> {
    let (from, mut position) = match after {
        Some(row) => (bucket(row.at()), Some((bucket(row.at()), row.key()))),
        // Another process may have a clock that is a little faster.
        None => (floor::<R>(keyspace).await?.min(bucket(keyspace.now()) - KEPT_FOR), None),
    };
    let mut found = Vec::new();
    for bucket in buckets(keyspace, from, bucket(keyspace.now()) + 2 * KEPT_FOR).await? {
        let after = position.take().filter(|(last, _)| *last == bucket).map_or(String::new(), |(_, key)| key);
        let first = if after.is_empty() { R::FIRST_SHARD } else { shard::<R>(&after) };
        let reads = (first..R::FIRST_SHARD + OPEN_TURN_SHARDS).map(|shard| {
            let after = if shard == first { after.as_str() } else { "" };
            readable_rows::<R>(keyspace, (bucket, shard), after, limit)
        });
        let mut reads = futures::stream::iter(reads.collect::<Vec<_>>()).buffered(PARTITIONS_AT_ONCE);
        while let Some(rows) = reads.try_next().await? {
            for row in rows {
                if found.len() == limit {
                    return Ok(found);
                }
                found.push(row);
            }
        }
    }
    Ok(found)
}

/// Returns the first rows of a shard after a key that can be decoded, at most `limit`.
async fn readable_rows<R: OpenRow>(
    keyspace: &Keyspace,
    shard: (i64, i32),
    after: &str,
    limit: usize,
) -> Result<Vec<R>> {
    let (mut found, mut after) = (Vec::new(), after.to_owned());
    while found.len() < limit {
        let missing = limit - found.len();
        let rows = keyspace.tables.open_turns.list(shard, &after, missing).await?;
        for (key, value) in &rows {
            found.extend(keyspace.decode_row::<R>(TABLE, key, value)?);
        }
        match rows.into_iter().nth(missing - 1) {
            Some((last, _)) => after = last,
            None => break,
        }
    }
    Ok(found)
}

pub(crate) async fn compact<R: OpenRow>(keyspace: &Keyspace) -> Result<()> {
    let end = bucket(keyspace.checked_now()?) - KEPT_FOR;
    let floor = floor::<R>(keyspace).await?;
    if floor >= end {
        return Ok(());
    }
    for bucket in buckets(keyspace, floor, end).await? {
        for shard in R::FIRST_SHARD..R::FIRST_SHARD + OPEN_TURN_SHARDS {
            move_rows::<R>(keyspace, (bucket, shard)).await?;
        }
    }
    keyspace.tables.open_turns.raise_floor(R::FLOOR, end).await
}

async fn floor<R: OpenRow>(keyspace: &Keyspace) -> Result<i64> {
    let oldest = bucket(keyspace.now()) - DIRECTORY_DAYS * BUCKETS_PER_DAY;
    Ok(keyspace.tables.open_turns.floor(R::FLOOR).await?.unwrap_or(oldest))
}

/// Returns the buckets with rows from `from` to below `end`.
async fn buckets(keyspace: &Keyspace, from: i64, end: i64) -> Result<Vec<i64>> {
    let table = &keyspace.tables.open_turns;
    let days = (day(from)..=day(end)).map(|day| table.buckets(day, from, end));
    futures::stream::iter(days.collect::<Vec<_>>()).buffered(PARTITIONS_AT_ONCE).try_concat().await
}

/// Copies the rows of a shard to a later bucket, and deletes the shard.
async fn move_rows<R: OpenRow>(keyspace: &Keyspace, (bucket, shard): (i64, i32)) -> Result<()> {
    let table = &keyspace.tables.open_turns;
    let mut after = String::new();
    loop {
        let rows = table.list((bucket, shard), &after, BATCH_ROWS).await?;
        let Some((last, _)) = rows.last() else { break };
        after.clone_from(last);
        let now = keyspace.checked_now()?;
        let target = next_position(bucket, self::bucket(now));
        let mut statements = vec![table.put_bucket(day(target), target, DIRECTORY_TTL)];
        for (key, value) in rows {
            let (value, ttl) = match keyspace.decode_row::<R>(TABLE, &key, &value)? {
                Some(row) => (encode(&row.clone().moved(start_of(target)?))?, time_to_live(now, row.until())),
                // A newer version reads the row.
                None => (value, DIRECTORY_TTL),
            };
            statements.push(table.put((target, shard), &key, value, ttl));
        }
        keyspace.cql.write_all(statements).await?;
        check_in_time(keyspace, target)?;
    }
    if after.is_empty() { Ok(()) } else { table.clear(bucket, shard).await }
}

/// Stores a row and removes others in one write. The caller sends the write that opens the turn or the job only after
/// this function returns.
pub(crate) async fn replace<R: OpenRow>(keyspace: &Keyspace, row: &R, removes: &[R]) -> Result<()> {
    let (table, now) = (&keyspace.tables.open_turns, keyspace.checked_now()?);
    // A write that is sent again may be older than a bucket, and the clock may have been ahead when it was planned.
    let at = if bucket(row.at()).abs_diff(bucket(now)) > 1 { now } else { row.at() };
    let (row, bucket) = (row.clone().moved(at), bucket(at));
    let (key, ttl) = (row.key(), time_to_live(now, row.until()));
    let mut statements: Statements<'_> = vec![table.put((bucket, shard::<R>(&key)), &key, encode(&row)?, ttl)];
    let is_listed = keyspace.open_turn_bucket.load(Ordering::Relaxed) == bucket;
    if !is_listed {
        statements.push(table.put_bucket(day(bucket), bucket, DIRECTORY_TTL));
    }
    for row in removes {
        let (key, from) = (row.key(), self::bucket(row.at()));
        let partitions = positions(from, self::bucket(now)).map(|bucket| (bucket, shard::<R>(&key)));
        statements.extend(partitions.map(|partition| table.remove(partition, &key)));
    }
    keyspace.cql.write_all(statements).await?;
    if !is_listed {
        keyspace.open_turn_bucket.store(bucket, Ordering::Relaxed);
    }
    check_in_time(keyspace, bucket)
}

fn shard<R: OpenRow>(key: &str) -> i32 {
    R::FIRST_SHARD + open_turn_shard(key)
}

/// Fails if a compaction may have read a bucket before a write to the bucket was acknowledged.
fn check_in_time(keyspace: &Keyspace, written: i64) -> Result<()> {
    if bucket(keyspace.checked_now()?) <= written + INSERTED_WITHIN {
        return Ok(());
    }
    Err(Error::unavailable(Reason::StoreUnavailable, "the row of an open turn or job was acknowledged too late"))
}

fn bucket(at: Timestamp) -> i64 {
    micros(at).div_euclid(BUCKET)
}

fn start_of(bucket: i64) -> Result<Timestamp> {
    let at = Timestamp::from_microsecond(bucket.saturating_mul(BUCKET));
    at.map_err(|error| Error::internal(format!("a bucket of open turns is out of range: {error}")))
}

fn day(bucket: i64) -> i64 {
    bucket.div_euclid(BUCKETS_PER_DAY)
}

/// Returns the bucket to which a compaction in bucket `now` moves the rows of an older bucket.
fn next_position(bucket: i64, now: i64) -> i64 {
    let steps = (now - bucket).div_euclid(KEPT_FOR) + 1;
    bucket + steps * KEPT_FOR
}

/// Returns the buckets in which a row may be that was stored in `bucket`, if compactions were prompt.
fn positions(bucket: i64, now: i64) -> impl Iterator<Item = i64> {
    let newest = if now - bucket > KEPT_FOR { next_position(bucket, now) } else { bucket };
    (0..3).map(move |steps| newest - steps * KEPT_FOR).filter(move |position| *position >= bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_one_of_its_positions_wherever_compactions_moved_it() {
        for delay in 0..KEPT_FOR {
            for first in 100..100 + KEPT_FOR {
                let mut row = first;
                for now in first..first + 100 {
                    if now - row > KEPT_FOR + delay {
                        let next = next_position(row, now);
                        assert!(next > now && next <= now + KEPT_FOR, "from {row} to {next} in {now}");
                        assert_eq!((next - first) % KEPT_FOR, 0);
                        row = next;
                    }
                    let positions: Vec<_> = positions(first, now).collect();
                    assert!(positions.contains(&row) || now - row > 2 * KEPT_FOR, "{row} in {now}: {positions:?}");
                }
            }
        }
    }

    #[test]
    fn a_new_row_has_one_position() {
        for now in 100..=100 + KEPT_FOR {
            assert_eq!(positions(100, now).collect::<Vec<_>>(), [100]);
        }
    }

    #[test]
    fn no_bucket_is_compacted_while_an_insert_may_be_acknowledged() {
        const _: () = assert!(KEPT_FOR > INSERTED_WITHIN + 1);
        assert_eq!(DIRECTORY_TTL, i32::try_from(DIRECTORY_DAYS * 24 * 60 * 60).unwrap());
    }
}
