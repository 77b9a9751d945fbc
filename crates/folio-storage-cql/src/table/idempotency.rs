//! `idempotency`: one partition for each request outside turns, with the target that it changes.

use folio_types::{OrgId, Result};

use crate::session::{ConditionalResult, Read};
use crate::values::values;

table! { Idempotency:
    get: read "SELECT value, at FROM idempotency WHERE org = ? AND op = ?",
    insert: conditional "INSERT INTO idempotency (org, op, value, at) VALUES (?, ?, ?, ?) IF NOT EXISTS",
    replace: conditional "UPDATE idempotency SET value = ?, at = ? WHERE org = ? AND op = ? IF value = ?",
    remove: conditional "DELETE FROM idempotency WHERE org = ? AND op = ? IF EXISTS",
}

impl Idempotency {
    /// Returns the row, and the time of its insertion (microseconds, by the clock of the process that inserted it).
    pub(crate) async fn get(&self, org: &OrgId, op: &str, consistency: Read) -> Result<Option<(Vec<u8>, i64)>> {
        let row: Option<(Vec<u8>, i64)> = self.cql.row(&self.get, consistency, values![org.as_str(), op]).await?;
        Ok(row)
    }

    pub(crate) async fn insert(&self, org: &OrgId, op: &str, value: Vec<u8>, at: i64) -> Result<ConditionalResult> {
        self.cql.conditional(&self.insert, values![org.as_str(), op, value, at]).await
    }

    /// Replaces the value `read`; refused if another value is stored.
    pub(crate) async fn replace(
        &self,
        org: &OrgId,
        op: &str,
        (read, value): (Vec<u8>, Vec<u8>),
        at: i64,
    ) -> Result<ConditionalResult> {
        self.cql.conditional(&self.replace, values![value, at, org.as_str(), op, read]).await
    }

    pub(crate) async fn remove(&self, org: &OrgId, op: &str) -> Result<ConditionalResult> {
        self.cql.conditional(&self.remove, values![org.as_str(), op]).await
    }
}
