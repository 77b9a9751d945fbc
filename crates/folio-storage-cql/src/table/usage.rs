//! `usage`: model calls by time and key, with one partition for each day of an organization. `usage_days`: these days.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, ReadConsistency, Select, StatementKind};
use crate::values::{limit, values};

pub(crate) struct Usages {
    day: PreparedStatement,
    days: Select,
    put: PreparedStatement,
    list: Select,
}

impl Usages {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        Ok(Self {
            day: cql.prepare("INSERT INTO usage_days (org, day) VALUES (?, ?)", StatementKind::Write).await?,
            days: cql.select("SELECT day FROM usage_days WHERE org = ? AND day >= ?").await?,
            put: cql
                .prepare("INSERT INTO usage (org, day, at, key, value) VALUES (?, ?, ?, ?, ?)", StatementKind::Write)
                .await?,
            list: cql.select("SELECT value FROM usage WHERE org = ? AND day = ? AND at >= ? LIMIT ?").await?,
        })
    }

    pub(crate) async fn put(
        &self,
        cql: &Cql,
        org: &OrgId,
        (day, at): (i64, i64),
        key: &str,
        value: Vec<u8>,
    ) -> Result<()> {
        cql.write(&self.put, values![org.as_str(), day, at, key, value]).await
    }

    pub(crate) async fn put_day(&self, cql: &Cql, org: &OrgId, day: i64) -> Result<()> {
        cql.write(&self.day, values![org.as_str(), day]).await
    }

    /// Returns the days with records, from day `from` on.
    pub(crate) async fn days(&self, cql: &Cql, org: &OrgId, from: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = cql.rows(&self.days, ReadConsistency::Quorum, values![org.as_str(), from]).await?;
        Ok(rows.into_iter().map(|(day,)| day).collect())
    }

    /// Returns at most `rows` records of a day from time `from` on, oldest first.
    pub(crate) async fn list(
        &self,
        cql: &Cql,
        org: &OrgId,
        (day, from): (i64, i64),
        rows: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), day, from, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = cql.rows(&self.list, ReadConsistency::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }
}
