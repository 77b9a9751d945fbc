//! `system_rows`: the indexes that background jobs read. The hash of a row's key selects one of the buckets of its
//! index.
//!
//! Writes are unconditional: a row is a hint, and the resource itself is authoritative.

use folio_types::{Result, Timestamp};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::session::Read;
use crate::values::{limit, micros, time_to_live, values};
use folio_storage::page_token;

const BUCKETS: i32 = 16;

/// The times of all rows of an index.
pub(crate) const ALL_TIMES: (i64, i64) = (i64::MIN, i64::MAX);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SystemRow {
    /// The time by which the index is ordered, in microseconds. 0: the index is ordered by key only.
    pub(crate) at: i64,
    /// Unique in the index.
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
}

table! { SystemRows:
    // A time to live of 0: the row does not expire.
    put: write "INSERT INTO system_rows (name, bucket, at, key, value) VALUES (?, ?, ?, ?, ?) USING TTL ?",
    remove: write "DELETE FROM system_rows WHERE name = ? AND bucket = ? AND at = ? AND key = ?",
    scan: read "SELECT at, key, value FROM system_rows \
                WHERE name = ? AND bucket = ? AND (at, key) > (?, ?) AND (at) <= (?) LIMIT ?",
}

impl SystemRows {
    pub(crate) async fn put(&self, index: &str, row: SystemRow) -> Result<()> {
        self.cql.write(&self.put, values![index, bucket(&row.key), row.at, row.key, row.value, 0]).await
    }

    /// Stores a row that expires at a time.
    pub(crate) async fn put_until(&self, index: &str, row: SystemRow, until: Timestamp) -> Result<()> {
        let ttl = time_to_live(self.cql.options().environment.now(), until);
        self.cql.write(&self.put, values![index, bucket(&row.key), row.at, row.key, row.value, ttl]).await
    }

    pub(crate) async fn remove(&self, index: &str, at: i64, key: &str) -> Result<()> {
        self.cql.write(&self.remove, values![index, bucket(key), at, key]).await
    }

    /// Returns the first `rows` rows of all buckets up to a time, ordered by time and key.
    pub(crate) async fn first(&self, index: &str, until: Option<Timestamp>, rows: usize) -> Result<Vec<SystemRow>> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        let until = until.map_or(i64::MAX, micros);
        let buckets: Vec<Vec<SystemRow>> = futures::stream::iter(0..BUCKETS)
            .map(|bucket| self.of_bucket(index, bucket, (i64::MIN, String::new()), until, rows))
            .buffer_unordered(4)
            .try_collect()
            .await?;
        let mut found: Vec<_> = buckets.into_iter().flatten().collect();
        found.sort();
        found.truncate(rows);
        Ok(found)
    }

    /// Returns at most `rows` rows after a row, bucket by bucket; fewer only at the end of the index. `times`: the first and
    /// the last time of the rows, in microseconds.
    pub(crate) async fn after(
        &self,
        index: &str,
        (first, last): (i64, i64),
        after: Option<(i64, String)>,
        rows: usize,
    ) -> Result<Vec<SystemRow>> {
        let (mut found, mut from) = (Vec::new(), after.as_ref().map_or(0, |(_, key)| bucket(key)));
        let mut position = after;
        while from < BUCKETS && found.len() < rows {
            // No key is empty, so the rows of the first time follow this position.
            let position = position.take().unwrap_or((first, String::new()));
            found.extend(self.of_bucket(index, from, position, last, rows - found.len()).await?);
            from += 1;
        }
        Ok(found)
    }

    async fn of_bucket(
        &self,
        index: &str,
        bucket: i32,
        (at, key): (i64, String),
        until: i64,
        rows: usize,
    ) -> Result<Vec<SystemRow>> {
        let values = values![index, bucket, at, key, until, limit(rows)];
        let rows: Vec<(i64, String, Vec<u8>)> = self.cql.rows(&self.scan, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(at, key, value)| SystemRow { at, key, value }).collect())
    }
}

fn bucket(key: &str) -> i32 {
    let [first, ..] = page_token::digest(&[key.as_bytes()]);
    i32::from(first) % BUCKETS
}
