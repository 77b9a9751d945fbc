//! The index of open turns.
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
use folio_history::thread::OpenTurnRow;
use folio_types::{Error, Reason, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::session::Statements;
use super::table::{OPEN_TURN_SHARDS, open_turn_shard};
use super::values::{micros, time_to_live};
use folio_storage::OpenTurnStore;
use folio_storage::value::{decode, encode};

/// Time range of a bucket, in microseconds.
const BUCKET: i64 = 10 * 1_000_000;
const BUCKETS_PER_DAY: i64 = 24 * 60 * 60 * 1_000_000 / BUCKET;
/// Number of buckets after its own in which an insert may be acknowledged.
const INSERTED_WITHIN: i64 = 3;
/// Number of buckets after its own for which a row stays in its bucket.
const KEPT_FOR: i64 = 6;
/// Age in days at which the directory forgets a bucket. The rows of an open turn expire earlier.
const DIRECTORY_DAYS: i64 = 60;
const DIRECTORY_TTL: i32 = 60 * 24 * 60 * 60;
/// Maximum number of partitions that a scan reads concurrently.
const PARTITIONS_AT_ONCE: usize = 8;
/// Maximum number of rows of a batch, about 300 bytes each. Servers refuse batches of more than 50 KiB.
const BATCH_ROWS: usize = 50;

pub(crate) struct OpenTurns(pub(crate) Arc<Keyspace>);

#[async_trait]
impl OpenTurnStore for OpenTurns {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        let now = bucket(self.0.now());
        let mut partitions = BTreeMap::<(i64, i32), Vec<String>>::new();
        for row in rows {
            let key = key(row);
            for bucket in positions(bucket(row.at), now) {
                partitions.entry((bucket, open_turn_shard(&key))).or_default().push(key.clone());
            }
        }
        for ((bucket, _), keys) in partitions {
            for keys in keys.chunks(BATCH_ROWS) {
                let statements = keys.iter().map(|key| self.0.tables.open_turns.remove(bucket, key)).collect();
                self.0.cql.write_all(statements).await?;
            }
        }
        Ok(())
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        let (from, mut position) = match after {
            Some(row) => (bucket(row.at), Some((bucket(row.at), key(row)))),
            // Another process may have a clock that is a little faster.
            None => (self.floor().await?.min(bucket(self.0.now()) - KEPT_FOR), None),
        };
        let mut found = Vec::new();
        for bucket in self.buckets(from, bucket(self.0.now()) + 2 * KEPT_FOR).await? {
            let after = position.take().filter(|(last, _)| *last == bucket).map_or(String::new(), |(_, key)| key);
            let first = if after.is_empty() { 0 } else { open_turn_shard(&after) };
            let reads = (first..OPEN_TURN_SHARDS).map(|shard| {
                let after = if shard == first { after.as_str() } else { "" };
                self.0.tables.open_turns.list((bucket, shard), after, limit)
            });
            let mut reads = futures::stream::iter(reads.collect::<Vec<_>>()).buffered(PARTITIONS_AT_ONCE);
            while let Some(rows) = reads.try_next().await? {
                for (_, value) in rows {
                    if found.len() == limit {
                        return Ok(found);
                    }
                    found.push(decode(&value)?);
                }
            }
        }
        Ok(found)
    }

    async fn compact(&self) -> Result<()> {
        self.0.cql.options().environment.check_clock()?;
        let (floor, end) = (self.floor().await?, bucket(self.0.now()) - KEPT_FOR);
        if floor >= end {
            return Ok(());
        }
        for bucket in self.buckets(floor, end).await? {
            for shard in 0..OPEN_TURN_SHARDS {
                self.move_rows(bucket, shard).await?;
            }
        }
        self.0.tables.open_turns.raise_floor(end).await
    }
}

impl OpenTurns {
    async fn floor(&self) -> Result<i64> {
        let oldest = bucket(self.0.now()) - DIRECTORY_DAYS * BUCKETS_PER_DAY;
        Ok(self.0.tables.open_turns.floor().await?.unwrap_or(oldest))
    }

    /// Returns the buckets with rows from `from` to below `end`.
    async fn buckets(&self, from: i64, end: i64) -> Result<Vec<i64>> {
        let table = &self.0.tables.open_turns;
        let days = (day(from)..=day(end)).map(|day| table.buckets(day, from, end));
        futures::stream::iter(days.collect::<Vec<_>>()).buffered(PARTITIONS_AT_ONCE).try_concat().await
    }

    /// Copies the rows of a shard to a later bucket, and deletes the shard.
    async fn move_rows(&self, bucket: i64, shard: i32) -> Result<()> {
        let table = &self.0.tables.open_turns;
        let mut after = String::new();
        loop {
            let rows = table.list((bucket, shard), &after, BATCH_ROWS).await?;
            let Some((last, _)) = rows.last() else { break };
            after.clone_from(last);
            let (now, target) = (self.0.now(), next_position(bucket, self::bucket(self.0.now())));
            let mut statements = vec![table.put_bucket(day(target), target, DIRECTORY_TTL)];
            for (key, value) in rows {
                let row = OpenTurnRow { at: start_of(target)?, ..decode(&value)? };
                statements.push(table.put(target, &key, encode(&row)?, time_to_live(now, row.until)));
            }
            self.0.cql.write_all(statements).await?;
            check_in_time(&self.0, target)?;
        }
        if after.is_empty() { Ok(()) } else { table.clear(bucket, shard).await }
    }
}

/// Stores a row and removes others in one write. The caller sends the append that opens the turn only after this
/// function returns.
pub(crate) async fn replace(keyspace: &Keyspace, row: &OpenTurnRow, removes: &[OpenTurnRow]) -> Result<()> {
    let (table, now) = (&keyspace.tables.open_turns, keyspace.now());
    // An append that is sent again may be older than a bucket.
    let at = if bucket(row.at) + 1 < bucket(now) { now } else { row.at };
    let row = OpenTurnRow { at, ..row.clone() };
    let bucket = bucket(at);
    let mut statements: Statements<'_> =
        vec![table.put(bucket, &key(&row), encode(&row)?, time_to_live(now, row.until))];
    let is_listed = keyspace.open_turn_bucket.load(Ordering::Relaxed) == bucket;
    if !is_listed {
        statements.push(table.put_bucket(day(bucket), bucket, DIRECTORY_TTL));
    }
    for row in removes {
        let (key, from) = (key(row), self::bucket(row.at));
        statements.extend(positions(from, self::bucket(now)).map(|bucket| table.remove(bucket, &key)));
    }
    keyspace.cql.write_all(statements).await?;
    if !is_listed {
        keyspace.open_turn_bucket.store(bucket, Ordering::Relaxed);
    }
    check_in_time(keyspace, bucket)
}

/// Fails if a compaction may have read a bucket before a write to the bucket was acknowledged.
fn check_in_time(keyspace: &Keyspace, written: i64) -> Result<()> {
    if bucket(keyspace.now()) <= written + INSERTED_WITHIN {
        return Ok(());
    }
    Err(Error::unavailable(Reason::StoreUnavailable, "the row of an open turn was acknowledged too late"))
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

fn key(row: &OpenTurnRow) -> String {
    format!("{}/{}/{:010}/{:020}", row.org, row.turn.thread, row.turn.number, row.epoch)
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
