//! Records of model calls: one conditional write that makes a record the only one of its key, then its row by time, which
//! can be written from it at any time.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{Error, OrgId, Reason, Result, Timestamp};

use super::keyspace::Keyspace;
use super::values::micros;
use folio_storage::planted::Bug;
use folio_storage::value::{decode, encode};
use folio_storage::{UsageRecord, UsageStore};

/// Bytes of a record's key.
const KEY_BYTES: usize = 1024;

/// Microseconds of a day: the partitions of the rows by time.
const DAY: i64 = 24 * 60 * 60 * 1_000_000;

pub(crate) struct UsageRecords(pub(crate) Arc<Keyspace>);

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord) -> Result<()> {
        if record.key.is_empty() || record.key.len() > KEY_BYTES {
            return Err(Error::invalid(Reason::TooLarge, "the key of a usage record has 1 to 1024 bytes"));
        }
        let Keyspace { cql, tables, .. } = &*self.0;
        let stands = tables.usage.insert_key(cql, &record.org, &record.key, encode(&record)?).await?;
        let at = micros(decode::<UsageRecord>(&stands)?.at);
        let key = match self.0.has(Bug::UsageTwice) {
            true => format!("{} {}", record.key, self.0.random()),
            false => record.key,
        };
        tables.usage.put(cql, &record.org, (at.div_euclid(DAY), at), &key, stands).await
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let mut found = Vec::new();
        for day in tables.usage.days(cql, org, micros(from).div_euclid(DAY)).await? {
            if found.len() >= limit {
                break;
            }
            for bytes in tables.usage.list(cql, org, (day, micros(from)), limit - found.len()).await? {
                found.push(decode(&bytes)?);
            }
        }
        Ok(found)
    }
}
