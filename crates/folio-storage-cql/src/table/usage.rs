//! `usage_keys`, `usage_days`, `usage`: each model call once, under its key; and by time, a partition for each day.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, Select, Sent, Strength, Use};
use crate::values::{limit, values};

/// The statements.
pub(crate) struct Usages {
    key: Select,
    insert_key: PreparedStatement,
    day: PreparedStatement,
    days: Select,
    put: PreparedStatement,
    list: Select,
}

impl Usages {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        Ok(Self {
            key: cql.select("SELECT value FROM usage_keys WHERE org = ? AND key = ?").await?,
            insert_key: cql
                .prepare("INSERT INTO usage_keys (org, key, value) VALUES (?, ?, ?) IF NOT EXISTS", Use::Conditional)
                .await?,
            day: cql.prepare("INSERT INTO usage_days (org, day) VALUES (?, ?)", Use::Write).await?,
            days: cql.select("SELECT day FROM usage_days WHERE org = ? AND day >= ?").await?,
            put: cql.prepare("INSERT INTO usage (org, day, at, key, value) VALUES (?, ?, ?, ?, ?)", Use::Write).await?,
            list: cql.select("SELECT value FROM usage WHERE org = ? AND day = ? AND at >= ? LIMIT ?").await?,
        })
    }

    /// Inserts a record under its key unless one is there; gives the one that stands then.
    pub(crate) async fn insert_key(&self, cql: &Cql, org: &OrgId, key: &str, value: Vec<u8>) -> Result<Vec<u8>> {
        let unknown = match cql.conditional(&self.insert_key, values![org.as_str(), key, value.clone()]).await? {
            Sent::Applied => return Ok(value),
            Sent::Refused => super::super::retry::contended("a usage record"),
            Sent::Unknown(error) => error,
        };
        let row: Option<(Vec<u8>,)> = cql.row(&self.key, Strength::Serial, values![org.as_str(), key]).await?;
        row.map(|(value,)| value).ok_or(unknown)
    }

    pub(crate) async fn put(
        &self,
        cql: &Cql,
        org: &OrgId,
        (day, at): (i64, i64),
        key: &str,
        value: Vec<u8>,
    ) -> Result<()> {
        let day_row = Box::pin(cql.write(&self.day, values![org.as_str(), day]));
        let row = Box::pin(cql.write(&self.put, values![org.as_str(), day, at, key, value]));
        futures::try_join!(day_row, row).map(|_| ())
    }

    /// The days from one on that have records.
    pub(crate) async fn days(&self, cql: &Cql, org: &OrgId, from: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = cql.rows(&self.days, Strength::Quorum, values![org.as_str(), from]).await?;
        Ok(rows.into_iter().map(|(day,)| day).collect())
    }

    /// The records of a day from a time on, oldest first, at most `rows`.
    pub(crate) async fn list(
        &self,
        cql: &Cql,
        org: &OrgId,
        (day, from): (i64, i64),
        rows: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), day, from, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = cql.rows(&self.list, Strength::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }
}
