//! Audit logs: rows ordered by time.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::audit::{AuditEntry, AuditPosition};
use folio_types::{OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use folio_storage::{AuditStore, encode_audit_checked};

pub(crate) struct Audits(pub(crate) Arc<Engine>);

#[async_trait]
impl AuditStore for Audits {
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        entries.iter().try_for_each(|entry| encode_audit_checked(entry).map(drop))?;
        let rows: Vec<_> = entries.iter().map(|entry| (keys::audit(org, &entry.position()), entry.clone())).collect();
        self.0
            .write(move |transaction| {
                for (key, entry) in rows {
                    if !transaction.contains(Space::Records, &key)? {
                        transaction.put(Space::Records, key, &entry)?;
                    }
                }
                Ok(())
            })
            .await
    }

    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let (low, high) = (keys::audit(org, low), keys::audit(org, high));
        let range = Range::prefix(Space::Records, keys::audits(org)).after(low).before(high);
        self.0.scan(move |view| view.values(range.reversed(newest_first), limit)).await
    }
}
