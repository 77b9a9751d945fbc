//! `usage_records`: model calls by time and key, with one partition for each bucket of an organization. `usage_days`: the
//! days with records. `usage_buckets`: the buckets with records of a day. `usage_hours`: the sums of the hours of a day.

use folio_types::{OrgId, Result};

use crate::session::Read;
use crate::values::{limit, values};

/// Number, encoded sums, and time of the last late record in microseconds.
pub(crate) type HourRow = (i64, Option<Vec<u8>>, Option<i64>);

/// A record of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordRow {
    /// The time of the record, in microseconds.
    pub(crate) at: i64,
    pub(crate) key: String,
    /// The encoded [`folio_storage::UsageRecord`].
    pub(crate) value: Vec<u8>,
}

table! { Usages:
    put_day: write "INSERT INTO usage_days (org, day) VALUES (?, ?)",
    days: read "SELECT day FROM usage_days WHERE org = ? AND day >= ?",
    put_bucket: write "INSERT INTO usage_buckets (org, day, bucket) VALUES (?, ?, ?)",
    buckets: read "SELECT bucket FROM usage_buckets WHERE org = ? AND day = ? AND bucket >= ?",
    put: write "INSERT INTO usage_records (org, bucket, at, key, value) VALUES (?, ?, ?, ?, ?)",
    list: read "SELECT value FROM usage_records WHERE org = ? AND bucket = ? AND at >= ? LIMIT ?",
    put_sums: write "UPDATE usage_hours SET sums = ? WHERE org = ? AND day = ? AND hour = ?",
    put_late: write "UPDATE usage_hours SET late_at = ? WHERE org = ? AND day = ? AND hour = ?",
    hours: read "SELECT hour, sums, late_at FROM usage_hours WHERE org = ? AND day = ? AND hour >= ?",
}

impl Usages {
    /// Writes records of one bucket in one batch.
    pub(crate) async fn put(&self, org: &OrgId, bucket: i64, rows: Vec<RecordRow>) -> Result<()> {
        let statement = |RecordRow { at, key, value }| (&self.put, values![org.as_str(), bucket, at, key, value]);
        self.cql.write_all(rows.into_iter().map(statement).collect()).await
    }

    pub(crate) async fn put_day(&self, org: &OrgId, day: i64) -> Result<()> {
        self.cql.write(&self.put_day, values![org.as_str(), day]).await
    }

    /// Returns the days with records, from day `from` on.
    pub(crate) async fn days(&self, org: &OrgId, from: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = self.cql.rows(&self.days, Read::Quorum, values![org.as_str(), from]).await?;
        Ok(rows.into_iter().map(|(day,)| day).collect())
    }

    pub(crate) async fn put_bucket(&self, org: &OrgId, day: i64, bucket: i64) -> Result<()> {
        self.cql.write(&self.put_bucket, values![org.as_str(), day, bucket]).await
    }

    /// Returns the buckets of a day with records, from bucket `from` on.
    pub(crate) async fn buckets(&self, org: &OrgId, day: i64, from: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = self.cql.rows(&self.buckets, Read::Quorum, values![org.as_str(), day, from]).await?;
        Ok(rows.into_iter().map(|(bucket,)| bucket).collect())
    }

    /// Returns at most `rows` records of a bucket from time `from` on, oldest first.
    pub(crate) async fn list(&self, org: &OrgId, (bucket, from): (i64, i64), rows: usize) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), bucket, from, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(&self.list, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn put_sums(&self, org: &OrgId, (day, hour): (i64, i64), sums: Vec<u8>) -> Result<()> {
        self.cql.write(&self.put_sums, values![sums, org.as_str(), day, hour]).await
    }

    pub(crate) async fn put_late(&self, org: &OrgId, (day, hour): (i64, i64), at: i64) -> Result<()> {
        self.cql.write(&self.put_late, values![at, org.as_str(), day, hour]).await
    }

    /// Returns the hours of a day with sums or late records, from hour `from` on.
    pub(crate) async fn hours(&self, org: &OrgId, day: i64, from: i64) -> Result<Vec<HourRow>> {
        self.cql.rows(&self.hours, Read::Quorum, values![org.as_str(), day, from]).await
    }
}
