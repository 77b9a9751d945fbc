//! `audit_hours`, `audit`: entries of the audit log by time, a partition for each hour of an organization.

use folio_resources::audit::AuditPosition;
use folio_types::{OrgId, Result};

use crate::session::{Read, Statements};
use crate::values::{limit, values};

/// Maximum number of entries in one batch: about 64 KiB of one partition.
const BATCH_ROWS: usize = 16;
const HOURS: &str = "SELECT hour FROM audit_hours WHERE org = ? AND hour >= ? AND hour <= ? ORDER BY hour";
const LIST: &str = "SELECT value FROM audit WHERE org = ? AND hour = ? AND (at, key) > (?, ?) AND (at, key) < (?, ?)";

table! { Audit:
    put_hour: write "INSERT INTO audit_hours (org, hour) VALUES (?, ?)",
    put: write "INSERT INTO audit (org, hour, at, key, value) VALUES (?, ?, ?, ?, ?)",
    oldest_hours: read &format!("{HOURS} ASC LIMIT ?"),
    newest_hours: read &format!("{HOURS} DESC LIMIT ?"),
    oldest: read &format!("{LIST} LIMIT ?"),
    newest: read &format!("{LIST} ORDER BY at DESC, key DESC LIMIT ?"),
}

impl Audit {
    pub(crate) async fn put_hour(&self, org: &OrgId, hour: i64) -> Result<()> {
        self.cql.write(&self.put_hour, values![org.as_str(), hour]).await
    }

    /// Writes entries of one hour, in batches of [`BATCH_ROWS`].
    pub(crate) async fn put(&self, org: &OrgId, hour: i64, rows: Vec<(AuditPosition, Vec<u8>)>) -> Result<()> {
        let mut rows = rows
            .into_iter()
            .map(|(position, value)| (&self.put, values![org.as_str(), hour, position.micros, position.key, value]));
        loop {
            let batch: Statements<'_> = rows.by_ref().take(BATCH_ROWS).collect();
            if batch.is_empty() {
                return Ok(());
            }
            self.cql.write_all(batch).await?;
        }
    }

    /// Returns at most `rows` hours with entries, from `first` to `last` inclusive.
    pub(crate) async fn hours(
        &self,
        org: &OrgId,
        (first, last): (i64, i64),
        newest_first: bool,
        rows: usize,
    ) -> Result<Vec<i64>> {
        let select = if newest_first { &self.newest_hours } else { &self.oldest_hours };
        let rows: Vec<(i64,)> =
            self.cql.rows(select, Read::Quorum, values![org.as_str(), first, last, limit(rows)]).await?;
        Ok(rows.into_iter().map(|(hour,)| hour).collect())
    }

    /// Returns at most `rows` entries of an hour, strictly between two positions.
    pub(crate) async fn list(
        &self,
        org: &OrgId,
        hour: i64,
        (low, high): (&AuditPosition, &AuditPosition),
        newest_first: bool,
        rows: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let select = if newest_first { &self.newest } else { &self.oldest };
        let values = values![org.as_str(), hour, low.micros, &low.key, high.micros, &high.key, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(select, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }
}
