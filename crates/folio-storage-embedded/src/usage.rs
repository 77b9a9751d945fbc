//! Records of model calls.
//!
//! A record is written without an fsync of its own. Each fsync includes all earlier writes, so a loss of power can remove
//! a record only together with the closing of its credit block. The block then expires, and its closing writes the record
//! again from the ledger, whose rows are durable. A call without credit has no ledger row: the write of its result, which
//! follows, makes its record durable.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use folio_storage::value::LateUsage;
use folio_storage::{HourSums, UsageHour, UsageRecord, UsageStore};

pub(crate) struct UsageRecords(pub(crate) Arc<Engine>);

#[async_trait]
impl UsageStore for UsageRecords {
    async fn record(&self, record: UsageRecord, now: Timestamp) -> Result<()> {
        record.check()?;
        self.0
            .write_lazily(move |transaction| {
                if UsageHour::is_late(&record, now) {
                    let key = keys::usage_late(&record.org, UsageHour::start_of(record.at));
                    transaction.put(Space::Records, key, &LateUsage { at: now })?;
                }
                transaction.put(Space::Records, keys::usage(&record.org, record.at, &record.key), &record)
            })
            .await
    }

    async fn list(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let range = Range::prefix(Space::Records, keys::usages(org)).from(keys::usage_from(org, from));
        self.0.scan(move |view| view.values(range, limit)).await
    }

    async fn hours(&self, org: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageHour>> {
        let org = org.clone();
        self.0
            .scan(move |view| {
                let (mut found, mut next) = (Vec::new(), UsageHour::start_of(from));
                while found.len() < limit {
                    let range = Range::prefix(Space::Records, keys::usages(&org)).from(keys::usage_from(&org, next));
                    let Some(first) = view.values::<UsageRecord>(range, 1)?.pop() else { break };
                    let start = UsageHour::start_of(first.at);
                    let sums = view.read(Space::Records, &keys::usage_sums(&org, start))?;
                    let late: Option<LateUsage> = view.read(Space::Records, &keys::usage_late(&org, start))?;
                    let hour = UsageHour { start, sums, late_at: late.map(|late| late.at) };
                    next = hour.end();
                    found.push(hour);
                }
                Ok(found)
            })
            .await
    }

    async fn put_sums(&self, org: &OrgId, start: Timestamp, sums: HourSums) -> Result<()> {
        let key = keys::usage_sums(org, start);
        self.0.write(move |transaction| transaction.put(Space::Records, key, &sums)).await
    }
}
