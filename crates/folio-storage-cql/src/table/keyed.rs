//! Tables of one value for each key: `tokens`.

use folio_types::Result;
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, Select, Sent, Strength, Use};
use crate::values::values;

/// A table of values by one key.
pub(crate) struct Keyed {
    get: Select,
    insert: PreparedStatement,
    replace: PreparedStatement,
}

impl Keyed {
    pub(crate) async fn prepare(cql: &Cql, table: &str, key: &str) -> Result<Self> {
        let insert = format!("INSERT INTO {table} ({key}, value) VALUES (?, ?) IF NOT EXISTS");
        let replace = format!("UPDATE {table} SET value = ? WHERE {key} = ? IF value = ?");
        Ok(Self {
            get: cql.select(&format!("SELECT value FROM {table} WHERE {key} = ?")).await?,
            insert: cql.prepare(&insert, Use::Conditional).await?,
            replace: cql.prepare(&replace, Use::Conditional).await?,
        })
    }

    pub(crate) async fn get(&self, cql: &Cql, key: &str, strength: Strength) -> Result<Option<Vec<u8>>> {
        let row: Option<(Vec<u8>,)> = cql.row(&self.get, strength, values![key]).await?;
        Ok(row.map(|(value,)| value))
    }

    /// Inserts a value unless one is stored; returns the value that is then stored.
    pub(crate) async fn insert(&self, cql: &Cql, key: &str, value: Vec<u8>) -> Result<Vec<u8>> {
        match cql.conditional(&self.insert, values![key, value.clone()]).await? {
            Sent::Applied => Ok(value),
            Sent::Refused => {
                self.get(cql, key, Strength::Serial).await?.ok_or_else(|| crate::retry::contended("a row"))
            }
            Sent::Unknown(error) => self.get(cql, key, Strength::Serial).await?.ok_or(error),
        }
    }

    /// Replaces a value if it is `old`; returns whether it was replaced.
    pub(crate) async fn replace(&self, cql: &Cql, key: &str, old: Vec<u8>, new: Vec<u8>) -> Result<bool> {
        match cql.conditional(&self.replace, values![new.clone(), key, old]).await? {
            Sent::Applied => Ok(true),
            Sent::Refused | Sent::Unknown(_) => Ok(self.get(cql, key, Strength::Serial).await? == Some(new)),
        }
    }
}
