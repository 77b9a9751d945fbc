//! `audit_hours`, `audit`: entries of the audit log by time, a partition for each hour of an organization.

use folio_resources::audit::AuditPosition;
use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, ReadConsistency, Select, StatementKind, Statements};
use crate::values::{limit, values};

pub(crate) struct Audit {
    put_hour: PreparedStatement,
    put: PreparedStatement,
    /// The first query returns the oldest hour first, the second one the newest.
    hours: [Select; 2],
    list: [Select; 2],
}

/// Maximum number of entries in one batch: about 64 KiB of one partition.
const BATCH_ROWS: usize = 16;
const HOURS: &str = "SELECT hour FROM audit_hours WHERE org = ? AND hour >= ? AND hour <= ? ORDER BY hour";
const LIST: &str = "SELECT value FROM audit WHERE org = ? AND hour = ? AND (at, key) > (?, ?) AND (at, key) < (?, ?)";

impl Audit {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let newest = format!("{LIST} ORDER BY at DESC, key DESC LIMIT ?");
        Ok(Self {
            put_hour: cql.prepare("INSERT INTO audit_hours (org, hour) VALUES (?, ?)", StatementKind::Write).await?,
            put: cql
                .prepare("INSERT INTO audit (org, hour, at, key, value) VALUES (?, ?, ?, ?, ?)", StatementKind::Write)
                .await?,
            hours: [
                cql.select(&format!("{HOURS} ASC LIMIT ?")).await?,
                cql.select(&format!("{HOURS} DESC LIMIT ?")).await?,
            ],
            list: [cql.select(&format!("{LIST} LIMIT ?")).await?, cql.select(&newest).await?],
        })
    }

    pub(crate) async fn put_hour(&self, cql: &Cql, org: &OrgId, hour: i64) -> Result<()> {
        cql.write(&self.put_hour, values![org.as_str(), hour]).await
    }

    /// Writes entries of one hour, in batches of [`BATCH_ROWS`].
    pub(crate) async fn put(
        &self,
        cql: &Cql,
        org: &OrgId,
        hour: i64,
        rows: Vec<(AuditPosition, Vec<u8>)>,
    ) -> Result<()> {
        let mut rows = rows
            .into_iter()
            .map(|(position, value)| (&self.put, values![org.as_str(), hour, position.micros, position.key, value]));
        loop {
            let batch: Statements<'_> = rows.by_ref().take(BATCH_ROWS).collect();
            if batch.is_empty() {
                return Ok(());
            }
            cql.write_all(batch).await?;
        }
    }

    /// Returns at most `rows` hours with entries, from `first` to `last` inclusive.
    pub(crate) async fn hours(
        &self,
        cql: &Cql,
        org: &OrgId,
        (first, last): (i64, i64),
        newest_first: bool,
        rows: usize,
    ) -> Result<Vec<i64>> {
        let [oldest, newest] = &self.hours;
        let select = if newest_first { newest } else { oldest };
        let rows: Vec<(i64,)> =
            cql.rows(select, ReadConsistency::Quorum, values![org.as_str(), first, last, limit(rows)]).await?;
        Ok(rows.into_iter().map(|(hour,)| hour).collect())
    }

    /// Returns at most `rows` entries of an hour, strictly between two positions.
    pub(crate) async fn list(
        &self,
        cql: &Cql,
        org: &OrgId,
        hour: i64,
        (low, high): (&AuditPosition, &AuditPosition),
        newest_first: bool,
        rows: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let [oldest, newest] = &self.list;
        let select = if newest_first { newest } else { oldest };
        let values = values![org.as_str(), hour, low.micros, &low.key, high.micros, &high.key, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = cql.rows(select, ReadConsistency::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }
}
