//! `organizations`, `installation`, `tokens`: read before anything else is known of a request.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::scylla::session::{Cql, Select, Sent, Strength, Use};
use crate::scylla::values::values;

/// A table of values by one key.
pub(crate) struct Keyed {
    get: Select,
    insert: PreparedStatement,
    overwrite: PreparedStatement,
}

impl Keyed {
    async fn prepare(cql: &Cql, table: &str, key: &str) -> Result<Self> {
        let overwrite = format!("INSERT INTO {table} ({key}, value) VALUES (?, ?)");
        let insert = format!("{overwrite} IF NOT EXISTS");
        Ok(Self {
            get: cql.select(&format!("SELECT value FROM {table} WHERE {key} = ?")).await?,
            insert: cql.prepare(&insert, Use::Conditional).await?,
            overwrite: cql.prepare(&overwrite, Use::Write).await?,
        })
    }

    pub(crate) async fn get(&self, cql: &Cql, key: &str, strength: Strength) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = cql.row(&self.get, strength, values![key]).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Takes the place of a value: a planted fault.
    pub(crate) async fn overwrite(&self, cql: &Cql, key: &str, value: Vec<u8>) -> Result<()> {
        cql.write(&self.overwrite, values![key, value]).await
    }

    /// Inserts a value unless one is there; gives the one that stands then.
    pub(crate) async fn insert(&self, cql: &Cql, key: &str, value: Vec<u8>) -> Result<Vec<u8>> {
        match cql.conditional(&self.insert, values![key, value.clone()]).await? {
            Sent::Applied => Ok(value),
            Sent::Refused => {
                self.get(cql, key, Strength::Serial).await?.ok_or_else(|| super::super::retry::contended("a row"))
            }
            Sent::Unknown(error) => self.get(cql, key, Strength::Serial).await?.ok_or(error),
        }
    }
}

/// The statements.
pub(crate) struct Access {
    pub(crate) organizations: Keyed,
    pub(crate) installation: Keyed,
    pub(crate) tokens: Keyed,
}

impl Access {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        Ok(Self {
            organizations: Keyed::prepare(cql, "organizations", "org").await?,
            installation: Keyed::prepare(cql, "installation", "name").await?,
            tokens: Keyed::prepare(cql, "tokens", "id").await?,
        })
    }

    pub(crate) async fn organization(&self, cql: &Cql, org: &OrgId) -> Result<Option<Vec<u8>>> {
        self.organizations.get(cql, org.as_str(), Strength::Quorum).await
    }
}
