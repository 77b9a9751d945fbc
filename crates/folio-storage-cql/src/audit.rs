//! Audit logs. An entry is a row under its time and key, written without a condition, because repeated writes of an
//! entry are equal. A partition holds the entries of an hour; a row for each hour with entries indexes the partitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::audit::{AuditEntry, AuditPosition};
use folio_types::{OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use folio_storage::value::decode;
use folio_storage::{AuditStore, encoded_audit};

/// Time range of a partition, in microseconds.
const HOUR: i64 = 60 * 60 * 1_000_000;
/// Number of hours that one read of the index returns.
const HOURS: usize = 256;
/// Maximum number of concurrent writes, and of concurrent reads of partitions.
const CONCURRENCY: usize = 8;

pub(crate) struct Audits(pub(crate) Arc<Keyspace>);

fn hour(micros: i64) -> i64 {
    micros.div_euclid(HOUR)
}

#[async_trait]
impl AuditStore for Audits {
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let hours: BTreeSet<i64> = entries.iter().map(|entry| hour(entry.position().micros)).collect();
        let mut rows = Vec::new();
        for entry in entries {
            rows.push((entry.position(), encoded_audit(entry)?));
        }
        let hours = hours.into_iter().map(|hour| tables.audit.put_hour(cql, org, hour));
        let hours = futures::stream::iter(hours).buffer_unordered(CONCURRENCY).try_collect::<()>();
        let rows = rows
            .into_iter()
            .map(|(position, value)| tables.audit.put(cql, org, hour(position.micros), position, value));
        let rows = futures::stream::iter(rows).buffer_unordered(CONCURRENCY).try_collect::<()>();
        futures::try_join!(hours, rows).map(|_| ())
    }

    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let (mut first, mut last) = (hour(low.micros), hour(high.micros));
        let mut found = Vec::new();
        while found.len() < limit && first <= last {
            let hours = tables.audit.hours(cql, org, (first, last), newest_first, HOURS).await?;
            let (read, end) = (hours.len(), hours.last().copied());
            let pages =
                hours.into_iter().map(|hour| tables.audit.list(cql, org, hour, (low, high), newest_first, limit));
            let mut pages = futures::stream::iter(pages).buffered(CONCURRENCY);
            while let Some(page) = pages.try_next().await? {
                for bytes in page {
                    found.push(decode(&bytes)?);
                }
                if found.len() >= limit {
                    break;
                }
            }
            match end {
                Some(end) if read == HOURS && newest_first => last = end.saturating_sub(1),
                Some(end) if read == HOURS => first = end.saturating_add(1),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}
