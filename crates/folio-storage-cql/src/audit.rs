//! Audit logs. An entry is a row under its time and key, written without a condition, because repeated writes of an
//! entry are equal. Each partition contains the entries of one hour; one row for each hour with entries indexes the
//! partitions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use folio_resources::audit::{AuditEntry, AuditPosition};
use folio_types::{OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use folio_storage::value::decode;
use folio_storage::{AuditStore, encode_audit_checked};

/// Time range of a partition, in microseconds.
const HOUR_MICROSECONDS: i64 = 60 * 60 * 1_000_000;
/// Maximum number of hours that one read of the index returns.
const HOURS_PER_READ: usize = 256;
/// Maximum number of concurrent writes, and of concurrent reads of partitions.
const CONCURRENCY: usize = 8;
/// Maximum size of [`Audits::indexed`], about 1 MiB.
const INDEXED_MAX: usize = 10_000;

pub(crate) struct Audits {
    keyspace: Arc<Keyspace>,
    /// The hour of each organization whose index row this process wrote last.
    indexed: Mutex<HashMap<OrgId, i64>>,
}

impl Audits {
    pub(crate) fn new(keyspace: Arc<Keyspace>) -> Self {
        Self { keyspace, indexed: Mutex::default() }
    }

    fn is_indexed(&self, org: &OrgId, hour: i64) -> bool {
        self.indexed.lock().unwrap_or_else(PoisonError::into_inner).get(org) == Some(&hour)
    }

    /// Writes the index row of an hour, unless it is the row that this process wrote last for the organization.
    async fn index(&self, org: &OrgId, hour: i64) -> Result<()> {
        if self.is_indexed(org, hour) {
            return Ok(());
        }
        self.keyspace.tables.audit.put_hour(org, hour).await?;
        let mut indexed = self.indexed.lock().unwrap_or_else(PoisonError::into_inner);
        if indexed.len() >= INDEXED_MAX {
            indexed.clear();
        }
        indexed.insert(org.clone(), hour);
        Ok(())
    }
}

fn hour(micros: i64) -> i64 {
    micros.div_euclid(HOUR_MICROSECONDS)
}

#[async_trait]
impl AuditStore for Audits {
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let mut hours = BTreeMap::<i64, Vec<_>>::new();
        for entry in entries {
            let position = entry.position();
            hours.entry(hour(position.micros)).or_default().push((position, encode_audit_checked(entry)?));
        }
        let written = hours.into_iter().map(|(hour, rows)| async move {
            futures::try_join!(self.index(org, hour), self.keyspace.tables.audit.put(org, hour, rows)).map(|_| ())
        });
        futures::stream::iter(written).buffer_unordered(CONCURRENCY).try_collect().await
    }

    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let (mut first, mut last) = (hour(low.micros), hour(high.micros));
        let mut found = Vec::new();
        while found.len() < limit && first <= last {
            let hours = self.keyspace.tables.audit.hours(org, (first, last), newest_first, HOURS_PER_READ).await?;
            let (read, end) = (hours.len(), hours.last().copied());
            let pages = hours
                .into_iter()
                .map(|hour| self.keyspace.tables.audit.list(org, hour, (low, high), newest_first, limit));
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
                Some(end) if read == HOURS_PER_READ && newest_first => last = end.saturating_sub(1),
                Some(end) if read == HOURS_PER_READ => first = end.saturating_add(1),
                _ => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }
}
