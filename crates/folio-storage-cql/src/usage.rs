//! Records of model calls. A record costs one plain write. The first record that a process writes to a bucket of an
//! organization costs two more: the rows of the day and of the bucket, through which readers find the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{Error, OrgId, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};
use moka::sync::Cache;

use super::keyspace::Keyspace;
use super::table::HourRow;
use super::values::micros;
use folio_storage::value::{decode, encode};
use folio_storage::{HourSums, UsageHour, UsageRecord, UsageStore};

/// Time range of a partition of records, in microseconds. At 100 calls per second a partition has 30,000 rows.
const BUCKET: i64 = 5 * 60 * 1_000_000;
const HOUR: i64 = 60 * 60 * 1_000_000;
const DAY: i64 = 24 * HOUR;
/// Maximum number of cached buckets, about 100 bytes each.
const BUCKETS_CACHED: u64 = 50_000;
/// Maximum number of partitions that are read concurrently.
const PARTITIONS_AT_ONCE: usize = 4;

pub(crate) struct UsageRecords {
    keyspace: Arc<Keyspace>,
    /// The buckets of organizations whose rows in `usage_days` and `usage_buckets` are written.
    buckets: Cache<(OrgId, i64), ()>,
}

impl UsageRecords {
    pub(crate) fn new(keyspace: Arc<Keyspace>) -> Self {
        Self { keyspace, buckets: Cache::new(BUCKETS_CACHED) }
    }

    /// Returns the hours of a day with records, from hour `from` on.
    async fn hours_of(&self, org: &OrgId, day: i64, from: i64) -> Result<Vec<UsageHour>> {
        let usage = &self.keyspace.tables.usage;
        let (buckets, stored) =
            tokio::try_join!(usage.buckets(org, day, from * (HOUR / BUCKET)), usage.hours(org, day, from))?;
        let mut stored: BTreeMap<i64, HourRow> = stored.into_iter().map(|row| (row.0, row)).collect();
        let mut hours: Vec<i64> = buckets.into_iter().map(|bucket| bucket.div_euclid(HOUR / BUCKET)).collect();
        hours.dedup();
        let hours = hours.into_iter().map(|hour| {
            let (_, sums, late_at) = stored.remove(&hour).unwrap_or_default();
            let sums = sums.map(|sums| decode(&sums)).transpose()?;
            Ok(UsageHour { start: time(hour * HOUR)?, sums, late_at: late_at.map(time).transpose()? })
        });
        hours.collect()
    }
}

fn time(micros: i64) -> Result<Timestamp> {
    let at = Timestamp::from_microsecond(micros);
    at.map_err(|error| Error::internal(format!("a stored time is out of range: {error}")))
}

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord, now: Timestamp) -> Result<()> {
        record.check()?;
        let usage = &self.keyspace.tables.usage;
        let (org, at, value) = (&record.org, micros(record.at), encode(&record)?);
        let (day, bucket) = (at.div_euclid(DAY), at.div_euclid(BUCKET));
        // The rows of the day and the bucket are written first, because a reader finds a record through them.
        let cached = (org.clone(), bucket);
        if !self.buckets.contains_key(&cached) {
            tokio::try_join!(usage.put_day(org, day), usage.put_bucket(org, day, bucket))?;
            self.buckets.insert(cached, ());
        }
        usage.put(org, (bucket, at), &record.key, value).await?;
        // The mark is written after the record, so that a reader that finds the mark also finds the record.
        if UsageHour::is_late(&record, now) {
            usage.put_late(org, (day, at.div_euclid(HOUR)), micros(now)).await?;
        }
        Ok(())
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let (usage, from) = (&self.keyspace.tables.usage, micros(from));
        let mut found = Vec::new();
        for day in usage.days(org, from.div_euclid(DAY)).await? {
            let buckets = usage.buckets(org, day, from.div_euclid(BUCKET)).await?;
            let reads: Vec<_> = buckets.into_iter().map(|bucket| usage.list(org, (bucket, from), limit)).collect();
            let mut reads = futures::stream::iter(reads).buffered(PARTITIONS_AT_ONCE);
            while let Some(values) = reads.try_next().await? {
                for bytes in values.into_iter().take(limit - found.len()) {
                    found.push(decode(&bytes)?);
                }
                if found.len() >= limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    async fn hours(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageHour>> {
        let from = micros(from);
        let days = self.keyspace.tables.usage.days(org, from.div_euclid(DAY)).await?;
        let reads: Vec<_> = days.into_iter().map(|day| self.hours_of(org, day, from.div_euclid(HOUR))).collect();
        let mut reads = futures::stream::iter(reads).buffered(PARTITIONS_AT_ONCE);
        let mut found = Vec::new();
        while let Some(hours) = reads.try_next().await? {
            found.extend(hours);
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    async fn put_sums(&self, org: &OrgId, start: Timestamp, sums: HourSums) -> Result<()> {
        let at = micros(start);
        let hour = (at.div_euclid(DAY), at.div_euclid(HOUR));
        self.keyspace.tables.usage.put_sums(org, hour, encode(&sums)?).await
    }
}
