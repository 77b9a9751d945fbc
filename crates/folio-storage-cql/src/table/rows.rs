//! `org_rows`: encoded rows of an organization, one partition for each group.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, ReadConsistency, Select, StatementKind};
use crate::values::{Values, values};

type Group<'a> = (&'a OrgId, &'a str);

pub(crate) struct Rows {
    get: Select,
    list: Select,
    put: PreparedStatement,
    remove: PreparedStatement,
    insert: PreparedStatement,
    replace: PreparedStatement,
}

impl Rows {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let conditional = |text: &'static str| cql.prepare(text, StatementKind::Conditional);
        Ok(Self {
            get: cql.select("SELECT value FROM org_rows WHERE org = ? AND part = ? AND key = ?").await?,
            list: cql.select("SELECT value FROM org_rows WHERE org = ? AND part = ?").await?,
            put: cql
                .prepare("INSERT INTO org_rows (org, part, key, value) VALUES (?, ?, ?, ?)", StatementKind::Write)
                .await?,
            remove: cql
                .prepare("DELETE FROM org_rows WHERE org = ? AND part = ? AND key = ?", StatementKind::Write)
                .await?,
            insert: conditional("INSERT INTO org_rows (org, part, key, value) VALUES (?, ?, ?, ?) IF NOT EXISTS")
                .await?,
            replace: conditional("UPDATE org_rows SET value = ? WHERE org = ? AND part = ? AND key = ? IF value = ?")
                .await?,
        })
    }

    pub(crate) async fn get(
        &self,
        cql: &Cql,
        (org, group): Group<'_>,
        key: &str,
        consistency: ReadConsistency,
    ) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = cql.row(&self.get, consistency, values![org.as_str(), group, key]).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Returns the values ordered by key.
    pub(crate) async fn list(&self, cql: &Cql, (org, group): Group<'_>) -> Result<Vec<Vec<u8>>> {
        let rows: Vec<(Vec<u8>,)> = cql.rows(&self.list, ReadConsistency::Quorum, values![org.as_str(), group]).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// Inserts the row only if no row with this key exists.
    pub(crate) fn insert(&self, (org, group): Group<'_>, key: &str, value: Vec<u8>) -> (&PreparedStatement, Values) {
        (&self.insert, values![org.as_str(), group, key, value])
    }

    /// Replaces the value only if the stored value is `old`.
    pub(crate) fn replace(
        &self,
        (org, group): Group<'_>,
        key: &str,
        old: Vec<u8>,
        new: Vec<u8>,
    ) -> (&PreparedStatement, Values) {
        (&self.replace, values![new, org.as_str(), group, key, old])
    }

    pub(crate) async fn put(&self, cql: &Cql, (org, group): Group<'_>, key: &str, value: Vec<u8>) -> Result<()> {
        cql.write(&self.put, values![org.as_str(), group, key, value]).await
    }

    pub(crate) async fn remove(&self, cql: &Cql, (org, group): Group<'_>, key: &str) -> Result<()> {
        cql.write(&self.remove, values![org.as_str(), group, key]).await
    }
}
