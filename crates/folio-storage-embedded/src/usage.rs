//! Records of model calls.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{Error, OrgId, Reason, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use super::value::UsageMark;
use folio_storage::planted::Bug;
use folio_storage::{UsageRecord, UsageStore};

/// Bytes of a record's key.
const KEY_BYTES: usize = 1024;

pub(crate) struct UsageRecords(pub(crate) Arc<Engine>);

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord) -> Result<()> {
        if record.key.is_empty() || record.key.len() > KEY_BYTES {
            return Err(Error::invalid(Reason::TooLarge, "the key of a usage record has 1 to 1024 bytes"));
        }
        self.0
            .write(move |transaction| {
                let mark = keys::usage_mark(&record.org, &record.key);
                if transaction.contains(Space::Records, &mark)? && !transaction.plan().has(Bug::UsageTwice) {
                    return Ok(());
                }
                transaction.put(Space::Records, mark, &UsageMark { at: record.at })?;
                transaction.put(Space::Records, keys::usage(&record.org, record.at, &record.key), &record)
            })
            .await
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let range = Range::prefix(Space::Records, keys::usages(org)).from(keys::usage_from(org, from));
        self.0.scan(move |view| view.values(range, limit)).await
    }
}
