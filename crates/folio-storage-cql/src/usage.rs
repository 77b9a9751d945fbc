//! Records of model calls. A bucket is a partition with the records of an organization in five minutes. The records that a process
//! writes to a bucket within [`WRITE_INTERVAL`] share a batch. The first write to a bucket also writes the row of the day and the row
//! of the bucket, through which readers find the records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Error, OrgId, Result, Timestamp};
use futures::{StreamExt as _, TryStreamExt as _};
use moka::sync::Cache;

use super::keyspace::Keyspace;
use super::shared_batch::{BatchItem, Results, SharedBatch};
use super::table::{HourRow, RecordRow};
use super::values::micros;
use folio_storage::value::{decode, encode};
use folio_storage::{HourSums, UsageHour, UsageRecord, UsageStore};

/// Time range of a bucket, in microseconds. At 100 calls per second a partition has 30,000 rows.
const BUCKET: i64 = 5 * 60 * 1_000_000;
const HOUR: i64 = 60 * 60 * 1_000_000;
const DAY: i64 = 24 * HOUR;
/// Maximum number of cached buckets, about 300 bytes each.
const BUCKETS_CACHED: u64 = 50_000;
/// Maximum number of partitions that are read concurrently.
const PARTITIONS_AT_ONCE: usize = 4;
/// Minimum time between two writes of a process to a bucket, unless the first one had [`RecordRow::BATCH_MAX`] records. A
/// record after a longer pause is written at once.
const WRITE_INTERVAL: Duration = Duration::from_millis(200);

impl BatchItem for RecordRow {
    /// Bounds a batch to about 25 KB, because a record has about 500 bytes.
    const BATCH_MAX: usize = 50;
    const INTERVAL: Option<Duration> = Some(WRITE_INTERVAL);

    fn key(&self) -> &str {
        &self.key
    }
}

pub(crate) struct UsageRecords {
    keyspace: Arc<Keyspace>,
    /// The buckets that this process writes, by organization and number.
    buckets: Cache<(OrgId, i64), Arc<Bucket>>,
}

/// The writes of this process to a bucket of an organization.
#[derive(Debug, Default)]
struct Bucket {
    records: SharedBatch<RecordRow>,
    /// True if this process has written the rows of the day and of the bucket.
    is_indexed: AtomicBool,
}

impl Bucket {
    /// Writes a record together with those of concurrent callers. `write` writes the rows of a batch; its second
    /// argument is true until a write to the bucket has succeeded.
    async fn put<F>(&self, row: RecordRow, write: impl Fn(Vec<RecordRow>, bool) -> F + Send + Sync) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send,
    {
        let execute = async |rows: Vec<RecordRow>| {
            let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
            let written = write(rows, !self.is_indexed.load(Ordering::SeqCst)).await;
            if written.is_ok() {
                self.is_indexed.store(true, Ordering::SeqCst);
            }
            keys.into_iter().map(|key| (key, written.clone())).collect::<Results>()
        };
        self.records.execute(row, execute).await
    }
}

impl UsageRecords {
    pub(crate) fn new(keyspace: Arc<Keyspace>) -> Self {
        Self { keyspace, buckets: Cache::new(BUCKETS_CACHED) }
    }

    /// Writes records of a bucket. The rows of the day and of the bucket are written first, because a reader finds a record
    /// through them.
    async fn write(&self, org: &OrgId, bucket: i64, rows: Vec<RecordRow>, is_first: bool) -> Result<()> {
        let usage = &self.keyspace.tables.usage;
        if is_first {
            let day = bucket.div_euclid(DAY / BUCKET);
            tokio::try_join!(usage.put_day(org, day), usage.put_bucket(org, day, bucket))?;
        }
        usage.put(org, bucket, rows).await
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
        let (org, at, value) = (&record.org, micros(record.at), encode(&record)?);
        let number = at.div_euclid(BUCKET);
        let bucket = self.buckets.get_with((org.clone(), number), Arc::default);
        let row = RecordRow { at, key: record.key.clone(), value };
        Box::pin(bucket.put(row, move |rows, is_first| self.write(org, number, rows, is_first))).await?;
        // The mark of a late record is written after it, so that a reader that finds the mark also finds the record.
        if UsageHour::is_late(&record, now) {
            let hour = (at.div_euclid(DAY), at.div_euclid(HOUR));
            self.keyspace.tables.usage.put_late(org, hour, micros(now)).await?;
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use folio_types::Reason;

    use super::*;

    fn row(number: i64) -> RecordRow {
        RecordRow { at: number, key: number.to_string(), value: Vec::new() }
    }

    /// The numbers of the records of each batch, and whether it was the first write to the bucket.
    #[derive(Default)]
    struct Batches(Mutex<Vec<(Vec<i64>, bool)>>);

    impl Batches {
        async fn write(&self, rows: Vec<RecordRow>, is_first: bool) -> Result<()> {
            self.0.lock().unwrap().push((rows.iter().map(|row| row.at).collect(), is_first));
            Ok(())
        }

        fn assert(&self, expected: &[(Vec<i64>, bool)]) {
            assert_eq!(self.0.lock().unwrap().as_slice(), expected);
        }
    }

    #[tokio::test]
    async fn a_record_is_written_at_once_and_those_of_the_next_interval_together() {
        let (bucket, batches) = (Bucket::default(), Batches::default());
        let (bucket, written) = (&bucket, &batches);
        let put = move |number| bucket.put(row(number), move |rows, is_first| written.write(rows, is_first));
        put(0).await.unwrap();
        futures::future::try_join_all((1..=20).map(put)).await.unwrap();
        batches.assert(&[(vec![0], true), ((1..=20).collect(), false)]);
    }

    #[tokio::test]
    async fn a_batch_is_bounded() {
        let (bucket, batches) = (Bucket::default(), Batches::default());
        let (bucket, written) = (&bucket, &batches);
        let put = move |number| bucket.put(row(number), move |rows, is_first| written.write(rows, is_first));
        put(0).await.unwrap();
        let count = i64::try_from(RecordRow::BATCH_MAX).unwrap();
        futures::future::try_join_all((1..=count + 1).map(put)).await.unwrap();
        batches.assert(&[(vec![0], true), ((1..=count).collect(), false), (vec![count + 1], false)]);
    }

    #[tokio::test]
    async fn a_failed_first_write_fails_and_the_next_one_is_the_first_again() {
        let (bucket, calls) = (Bucket::default(), Mutex::new(Vec::new()));
        let write = |_: Vec<RecordRow>, is_first: bool| {
            let mut calls = calls.lock().unwrap();
            calls.push(is_first);
            let failed = Error::unavailable(Reason::StoreUnavailable, "unavailable");
            std::future::ready(if calls.len() == 1 { Err(failed) } else { Ok(()) })
        };
        assert!(bucket.put(row(1), write).await.is_err());
        bucket.put(row(1), write).await.unwrap();
        assert_eq!(*calls.lock().unwrap(), [true, true]);
    }
}
