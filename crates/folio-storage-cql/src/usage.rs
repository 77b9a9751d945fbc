//! Records of model calls. Each record is one plain write; the first record of an organization's day is one more.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};
use moka::sync::Cache;

use super::keyspace::Keyspace;
use super::values::micros;
use folio_storage::value::{decode, encode};
use folio_storage::{UsageRecord, UsageStore};

/// Time range of a partition, in microseconds.
const DAY_MICROSECONDS: i64 = 24 * 60 * 60 * 1_000_000;

/// Maximum number of cached days, about 100 bytes each.
const DAYS_CACHED: u64 = 50_000;

pub(crate) struct UsageRecords {
    keyspace: Arc<Keyspace>,
    /// The days of organizations whose row in `usage_days` is written.
    days: Cache<(OrgId, i64), ()>,
}

impl UsageRecords {
    pub(crate) fn new(keyspace: Arc<Keyspace>) -> Self {
        Self { keyspace, days: Cache::new(DAYS_CACHED) }
    }
}

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord) -> Result<()> {
        record.check()?;
        let (at, value) = (micros(record.at), encode(&record)?);
        let day = (record.org.clone(), at.div_euclid(DAY_MICROSECONDS));
        // The row of the day is written first, because a reader finds a record through it.
        if !self.days.contains_key(&day) {
            self.keyspace.tables.usage.put_day(&day.0, day.1).await?;
            self.days.insert(day.clone(), ());
        }
        self.keyspace.tables.usage.put(&record.org, (day.1, at), &record.key, value).await
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let mut found = Vec::new();
        for day in self.keyspace.tables.usage.days(org, micros(from).div_euclid(DAY_MICROSECONDS)).await? {
            if found.len() >= limit {
                break;
            }
            for bytes in self.keyspace.tables.usage.list(org, (day, micros(from)), limit - found.len()).await? {
                found.push(decode(&bytes)?);
            }
        }
        Ok(found)
    }
}
