//! Faults of the smaller stores: ops, open turns, usage and audit logs.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use folio_history::thread::OpenTurnRow;
use folio_resources::audit::{AuditEntry, AuditPosition};
use folio_storage::{AuditStore, OpStore, OpenTurnStore, UsageRecord, UsageStore};
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::Seen;
use crate::layer::{AuditLayer, OpLayer, OpenTurnLayer, UsageLayer};

/// Maximum number of rows that a fault reads from the open-turn index.
const ALL: usize = 100_000;

#[derive(Default)]
pub(super) struct ClosingSkipped;

#[async_trait]
impl OpLayer for ClosingSkipped {
    async fn close(&self, _: &dyn OpStore, _: &OrgId, _: &Target, row: OpRow) -> Result<OpRow> {
        Ok(row)
    }
}

#[derive(Default)]
pub(super) struct RequestRecordIgnored;

#[async_trait]
impl OpLayer for RequestRecordIgnored {
    async fn record_request(
        &self,
        below: &dyn OpStore,
        org: &OrgId,
        op: &OpKey,
        record: IdempotencyRecord,
    ) -> Result<IdempotencyRecord> {
        below.record_request(org, op, record.clone()).await?;
        Ok(record)
    }
}

#[derive(Default)]
pub(super) struct OpenTurnRemovesAllEpochs;

#[async_trait]
impl OpenTurnLayer for OpenTurnRemovesAllEpochs {
    async fn remove(&self, below: &dyn OpenTurnStore, rows: &[OpenTurnRow]) -> Result<()> {
        let mut removed = below.scan(None, ALL).await?;
        removed.retain(|other| rows.iter().any(|row| other.org == row.org && other.turn == row.turn));
        below.remove(&removed).await
    }
}

#[derive(Default)]
pub(super) struct UsageTwice(Seen<(OrgId, String)>);

#[async_trait]
impl UsageLayer for UsageTwice {
    async fn record(&self, below: &dyn UsageStore, mut record: UsageRecord, now: Timestamp) -> Result<()> {
        if self.0.is_repeated((record.org.clone(), record.key.clone())) {
            record.key.push_str(" again");
        }
        below.record(record, now).await
    }
}

#[derive(Default)]
pub(super) struct AuditTwice(Seen<(OrgId, String)>);

#[async_trait]
impl AuditLayer for AuditTwice {
    async fn append(&self, below: &dyn AuditStore, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let mut entries = entries.to_vec();
        for entry in &mut entries {
            if self.0.is_repeated((org.clone(), entry.key.clone())) {
                entry.key.push_str(" again");
            }
        }
        below.append(org, &entries).await
    }
}

#[derive(Default)]
pub(super) struct AuditLogKept(Mutex<Vec<(OrgId, AuditEntry)>>);

#[async_trait]
impl AuditLayer for AuditLogKept {
    async fn append(&self, below: &dyn AuditStore, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let new = entries.iter().map(|entry| (org.clone(), entry.clone()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
        below.append(org, entries).await
    }

    async fn list(
        &self,
        below: &dyn AuditStore,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let found = below.list(org, low, high, newest_first, limit).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_org = kept.iter().filter(|(of, entry)| of == org && *low < entry.position() && entry.position() < *high);
        Ok(of_org.map(|(_, entry)| entry.clone()).take(limit).collect())
    }
}
