//! `usage`: model calls by time and key, with one partition for each day of an organization. `usage_days`: these days.

use folio_types::{OrgId, Result};

use crate::session::Read;
use crate::values::{limit, values};

table! { Usages:
    put_day: write "INSERT INTO usage_days (org, day) VALUES (?, ?)",
    days: read "SELECT day FROM usage_days WHERE org = ? AND day >= ?",
    put: write "INSERT INTO usage (org, day, at, key, value) VALUES (?, ?, ?, ?, ?)",
    list: read "SELECT value FROM usage WHERE org = ? AND day = ? AND at >= ? LIMIT ?",
}

impl Usages {
    pub(crate) async fn put(&self, org: &OrgId, (day, at): (i64, i64), key: &str, value: Vec<u8>) -> Result<()> {
        self.cql.write(&self.put, values![org.as_str(), day, at, key, value]).await
    }

    pub(crate) async fn put_day(&self, org: &OrgId, day: i64) -> Result<()> {
        self.cql.write(&self.put_day, values![org.as_str(), day]).await
    }

    /// Returns the days with records, from day `from` on.
    pub(crate) async fn days(&self, org: &OrgId, from: i64) -> Result<Vec<i64>> {
        let rows: Vec<(i64,)> = self.cql.rows(&self.days, Read::Quorum, values![org.as_str(), from]).await?;
        Ok(rows.into_iter().map(|(day,)| day).collect())
    }

    /// Returns at most `rows` records of a day from time `from` on, oldest first.
    pub(crate) async fn list(&self, org: &OrgId, (day, from): (i64, i64), rows: usize) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), day, from, limit(rows)];
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(&self.list, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }
}
