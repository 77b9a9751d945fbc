//! `idempotency`: one partition for each request outside turns, with the target that it changes.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{ConditionalResult, Cql, ReadConsistency, Select, StatementKind};
use crate::values::values;

pub(crate) struct Idempotency {
    get: Select,
    insert: PreparedStatement,
    replace: PreparedStatement,
    remove: PreparedStatement,
}

impl Idempotency {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let conditional = |text: &'static str| cql.prepare(text, StatementKind::Conditional);
        Ok(Self {
            get: cql.select("SELECT value, at FROM idempotency WHERE org = ? AND op = ?").await?,
            insert: conditional("INSERT INTO idempotency (org, op, value, at) VALUES (?, ?, ?, ?) IF NOT EXISTS")
                .await?,
            replace: conditional("UPDATE idempotency SET value = ?, at = ? WHERE org = ? AND op = ? IF value = ?")
                .await?,
            remove: conditional("DELETE FROM idempotency WHERE org = ? AND op = ? IF EXISTS").await?,
        })
    }

    /// Returns the row, and the time of its insertion (microseconds, by the clock of the process that inserted it).
    pub(crate) async fn get(
        &self,
        cql: &Cql,
        org: &OrgId,
        op: &str,
        consistency: ReadConsistency,
    ) -> Result<Option<(Vec<u8>, i64)>> {
        let row: Option<(Vec<u8>, i64)> = cql.row(&self.get, consistency, values![org.as_str(), op]).await?;
        Ok(row)
    }

    pub(crate) async fn insert(
        &self,
        cql: &Cql,
        org: &OrgId,
        op: &str,
        value: Vec<u8>,
        at: i64,
    ) -> Result<ConditionalResult> {
        cql.conditional(&self.insert, values![org.as_str(), op, value, at]).await
    }

    /// Replaces the value `read`; refused if another value is stored.
    pub(crate) async fn replace(
        &self,
        cql: &Cql,
        org: &OrgId,
        op: &str,
        (read, value): (Vec<u8>, Vec<u8>),
        at: i64,
    ) -> Result<ConditionalResult> {
        cql.conditional(&self.replace, values![value, at, org.as_str(), op, read]).await
    }

    pub(crate) async fn remove(&self, cql: &Cql, org: &OrgId, op: &str) -> Result<ConditionalResult> {
        cql.conditional(&self.remove, values![org.as_str(), op]).await
    }
}
