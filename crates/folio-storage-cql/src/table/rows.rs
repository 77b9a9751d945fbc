//! `org_rows`: encoded rows of an organization, one partition for each group.

use folio_types::{OrgId, Result};

use crate::session::{Read, Statement};
use crate::values::{limit, values};

type Group<'a> = (&'a OrgId, &'a str);

table! { Rows:
    get: read "SELECT value FROM org_rows WHERE org = ? AND part = ? AND key = ?",
    list: read "SELECT value FROM org_rows WHERE org = ? AND part = ?",
    list_after: read "SELECT key, value FROM org_rows WHERE org = ? AND part = ? AND key > ? LIMIT ?",
    put: write "INSERT INTO org_rows (org, part, key, value) VALUES (?, ?, ?, ?)",
    remove: write "DELETE FROM org_rows WHERE org = ? AND part = ? AND key = ?",
    remove_group: write "DELETE FROM org_rows WHERE org = ? AND part = ?",
    insert: conditional "INSERT INTO org_rows (org, part, key, value) VALUES (?, ?, ?, ?) IF NOT EXISTS",
    replace: conditional "UPDATE org_rows SET value = ? WHERE org = ? AND part = ? AND key = ? IF value = ?",
    remove_equal: conditional "DELETE FROM org_rows WHERE org = ? AND part = ? AND key = ? IF value = ?",
}

impl Rows {
    pub(crate) async fn get(&self, (org, group): Group<'_>, key: &str, consistency: Read) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = self.cql.row(&self.get, consistency, values![org.as_str(), group, key]).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Returns the values ordered by key.
    pub(crate) async fn list(&self, (org, group): Group<'_>) -> Result<Vec<Vec<u8>>> {
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(&self.list, Read::Quorum, values![org.as_str(), group]).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// Returns the rows after a key, ordered by key.
    pub(crate) async fn list_after(
        &self,
        (org, group): Group<'_>,
        after: &str,
        rows: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let values = values![org.as_str(), group, after, limit(rows)];
        self.cql.rows(&self.list_after, Read::Quorum, values).await
    }

    /// Inserts the row only if no row with this key exists.
    pub(crate) fn insert(&self, (org, group): Group<'_>, key: &str, value: Vec<u8>) -> Statement<'_> {
        (&self.insert, values![org.as_str(), group, key, value])
    }

    /// Replaces the value only if the stored value is `old`.
    pub(crate) fn replace(&self, (org, group): Group<'_>, key: &str, old: Vec<u8>, new: Vec<u8>) -> Statement<'_> {
        (&self.replace, values![new, org.as_str(), group, key, old])
    }

    /// Removes the row only if the stored value is `old`.
    pub(crate) fn remove_equal(&self, (org, group): Group<'_>, key: &str, old: Vec<u8>) -> Statement<'_> {
        (&self.remove_equal, values![org.as_str(), group, key, old])
    }

    pub(crate) async fn put(&self, (org, group): Group<'_>, key: &str, value: Vec<u8>) -> Result<()> {
        self.cql.write(&self.put, values![org.as_str(), group, key, value]).await
    }

    pub(crate) async fn remove_group(&self, (org, group): Group<'_>) -> Result<()> {
        self.cql.write(&self.remove_group, values![org.as_str(), group]).await
    }

    pub(crate) async fn remove(&self, (org, group): Group<'_>, key: &str) -> Result<()> {
        self.cql.write(&self.remove, values![org.as_str(), group, key]).await
    }
}
