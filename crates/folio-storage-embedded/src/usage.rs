//! Records of model calls.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use folio_storage::{UsageRecord, UsageStore};

pub(crate) struct UsageRecords(pub(crate) Arc<Engine>);

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord) -> Result<()> {
        record.check()?;
        self.0
            .write(move |transaction| {
                transaction.put(Space::Records, keys::usage(&record.org, record.at, &record.key), &record)
            })
            .await
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let range = Range::prefix(Space::Records, keys::usages(org)).from(keys::usage_from(org, from));
        self.0.scan(move |view| view.values(range, limit)).await
    }
}
