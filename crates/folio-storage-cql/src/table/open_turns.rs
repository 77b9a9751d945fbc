//! The tables of the indexes of open turns and of open jobs.
//!
//! | table | content |
//! |---|---|
//! | `open_turns` | the rows by bucket of time and shard; each index has its own shards, and the hash of a row's key selects one of them |
//! | `open_turn_buckets` | the buckets of each day that have rows |
//! | `open_turn_floor` | the first bucket of each index that may contain rows |
//!
//! Writes are unconditional: a row is a hint, and a reader checks it with the thread or the job.

use folio_types::Result;

use crate::session::{Read, Statement};
use crate::values::{limit, values};
use folio_storage::page_token;

/// Number of partitions of a bucket for each index.
pub(crate) const SHARDS: i32 = 4;

table! { OpenTurnRows:
    put: write "INSERT INTO open_turns (bucket, shard, key, value) VALUES (?, ?, ?, ?) USING TTL ?",
    remove: write "DELETE FROM open_turns WHERE bucket = ? AND shard = ? AND key = ?",
    clear: write "DELETE FROM open_turns WHERE bucket = ? AND shard = ?",
    list: read "SELECT key, value FROM open_turns WHERE bucket = ? AND shard = ? AND key > ? LIMIT ?",
    put_bucket: write "INSERT INTO open_turn_buckets (day, bucket) VALUES (?, ?) USING TTL ?",
    buckets: read "SELECT bucket FROM open_turn_buckets WHERE day = ? AND bucket >= ? AND bucket < ?",
    raise_floor: write "INSERT INTO open_turn_floor (name, bucket) VALUES (?, ?) USING TIMESTAMP ?",
    floor: read "SELECT bucket FROM open_turn_floor WHERE name = ?",
}

impl OpenTurnRows {
    pub(crate) fn put(&self, (bucket, shard): (i64, i32), key: &str, value: Vec<u8>, ttl: i32) -> Statement<'_> {
        (&self.put, values![bucket, shard, key, value, ttl])
    }

    pub(crate) fn remove(&self, (bucket, shard): (i64, i32), key: &str) -> Statement<'_> {
        (&self.remove, values![bucket, shard, key])
    }

    /// Deletes all rows of a shard.
    pub(crate) async fn clear(&self, bucket: i64, shard: i32) -> Result<()> {
        self.cql.write(&self.clear, values![bucket, shard]).await
    }

    /// Returns at most `rows` rows of a shard after a key, in the order of their keys.
    pub(crate) async fn list(
        &self,
        (bucket, shard): (i64, i32),
        after: &str,
        rows: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        self.cql.rows(&self.list, Read::Quorum, values![bucket, shard, after, limit(rows)]).await
    }

    pub(crate) fn put_bucket(&self, day: i64, bucket: i64, ttl: i32) -> Statement<'_> {
        (&self.put_bucket, values![day, bucket, ttl])
    }

    /// Returns the buckets of a day with rows, from bucket `from` to below `end`.
    pub(crate) async fn buckets(&self, day: i64, from: i64, end: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = self.cql.rows(&self.buckets, Read::Quorum, values![day, from, end]).await?;
        Ok(rows.into_iter().map(|(bucket,)| bucket).collect())
    }

    /// Stores a floor of an index unless a higher one is stored.
    pub(crate) async fn raise_floor(&self, index: &str, bucket: i64) -> Result<()> {
        self.cql.write(&self.raise_floor, values![index, bucket, bucket]).await
    }

    pub(crate) async fn floor(&self, index: &str) -> Result<Option<i64>> {
        let row: Option<(i64,)> = self.cql.row(&self.floor, Read::Quorum, values![index]).await?;
        Ok(row.map(|(bucket,)| bucket))
    }
}

/// Returns the shard of a key, from 0, within its index.
pub(crate) fn shard(key: &str) -> i32 {
    let [first, ..] = page_token::digest(&[key.as_bytes()]);
    i32::from(first) % SHARDS
}
