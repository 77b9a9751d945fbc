//! `access`: members of an organization, and the last uses of its tokens.

use folio_types::Result;
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, Select, Strength, Use};
use crate::values::{Values, limit, values};

/// The kind of a row of `access`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// A member, by user.
    Member,
    /// The last use of a token, by its id.
    TokenUse,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::TokenUse => "token_use",
        }
    }
}

/// Rows of `access`.
pub(crate) struct Access {
    get: Select,
    list: Select,
    put: PreparedStatement,
    remove: PreparedStatement,
    insert: PreparedStatement,
    replace: PreparedStatement,
}

impl Access {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let conditional = |text: &'static str| cql.prepare(text, Use::Conditional);
        Ok(Self {
            get: cql.select("SELECT value FROM access WHERE org = ? AND part = ? AND key = ?").await?,
            list: cql.select("SELECT key, value FROM access WHERE org = ? AND part = ? AND key > ? LIMIT ?").await?,
            put: cql.prepare("INSERT INTO access (org, part, key, value) VALUES (?, ?, ?, ?)", Use::Write).await?,
            remove: cql.prepare("DELETE FROM access WHERE org = ? AND part = ? AND key = ?", Use::Write).await?,
            insert: conditional("INSERT INTO access (org, part, key, value) VALUES (?, ?, ?, ?) IF NOT EXISTS").await?,
            replace: conditional("UPDATE access SET value = ? WHERE org = ? AND part = ? AND key = ? IF value = ?")
                .await?,
        })
    }

    pub(crate) async fn get(
        &self,
        cql: &Cql,
        org: &str,
        part: Part,
        key: &str,
        strength: Strength,
    ) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = cql.row(&self.get, strength, values![org, part.word(), key]).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Inserts a row if none with its key exists.
    pub(crate) fn insert(&self, org: &str, part: Part, key: &str, value: Vec<u8>) -> (&PreparedStatement, Values) {
        (&self.insert, values![org, part.word(), key, value])
    }

    /// Replaces a value if it is the one that was read. With an equal value, this only checks that the row is
    /// unchanged.
    pub(crate) fn replace(
        &self,
        org: &str,
        part: Part,
        key: &str,
        old: Vec<u8>,
        new: Vec<u8>,
    ) -> (&PreparedStatement, Values) {
        (&self.replace, values![new, org, part.word(), key, old])
    }

    /// Returns the rows after a key, in order, at most `rows`.
    pub(crate) async fn list(
        &self,
        cql: &Cql,
        org: &str,
        part: Part,
        after: &str,
        rows: usize,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        cql.rows(&self.list, Strength::Quorum, values![org, part.word(), after, limit(rows)]).await
    }

    pub(crate) async fn put(&self, cql: &Cql, org: &str, part: Part, key: &str, value: Vec<u8>) -> Result<()> {
        cql.write(&self.put, values![org, part.word(), key, value]).await
    }

    pub(crate) async fn remove(&self, cql: &Cql, org: &str, part: Part, key: &str) -> Result<()> {
        cql.write(&self.remove, values![org, part.word(), key]).await
    }
}
