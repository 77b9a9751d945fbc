//! `names`: one partition for each name of a kind, with the resource that claimed it and the op that reserved it.

use folio_types::{OrgId, Result};

use crate::session::{ConditionalResult, Read};
use crate::values::values;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameRow {
    pub(crate) id: String,
    pub(crate) op: String,
    /// The time of the reservation, in microseconds by the clock of the reserving process.
    pub(crate) at: i64,
}

table! { Names:
    get: read "SELECT id, op, at FROM names WHERE org = ? AND kind = ? AND name = ?",
    reserve: conditional "INSERT INTO names (org, kind, name, id, op, at) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
    replace: conditional "UPDATE names SET id = ?, op = ?, at = ? \
                          WHERE org = ? AND kind = ? AND name = ? IF op = ? AND id = ?",
    free: conditional "DELETE FROM names WHERE org = ? AND kind = ? AND name = ? IF op = ? AND id = ?",
}

impl Names {
    /// `name` is folded.
    pub(crate) async fn get(
        &self,
        org: &OrgId,
        (kind, name): (&str, &str),
        consistency: Read,
    ) -> Result<Option<NameRow>> {
        let values = values![org.as_str(), kind, name];
        let row: Option<(String, String, i64)> = self.cql.row(&self.get, consistency, values).await?;
        Ok(row.map(|(id, op, at)| NameRow { id, op, at }))
    }

    pub(crate) async fn reserve(
        &self,
        org: &OrgId,
        (kind, name): (&str, &str),
        row: &NameRow,
    ) -> Result<ConditionalResult> {
        let values = values![org.as_str(), kind, name, &row.id, &row.op, row.at];
        self.cql.conditional(&self.reserve, values).await
    }

    /// Replaces the row `read`; refused if another row is stored.
    pub(crate) async fn replace(
        &self,
        org: &OrgId,
        (kind, name): (&str, &str),
        (read, row): (&NameRow, &NameRow),
    ) -> Result<ConditionalResult> {
        let values = values![&row.id, &row.op, row.at, org.as_str(), kind, name, &read.op, &read.id];
        self.cql.conditional(&self.replace, values).await
    }

    /// Removes the row `read`; refused if another row is stored.
    pub(crate) async fn free(
        &self,
        org: &OrgId,
        (kind, name): (&str, &str),
        read: &NameRow,
    ) -> Result<ConditionalResult> {
        self.cql.conditional(&self.free, values![org.as_str(), kind, name, &read.op, &read.id]).await
    }
}
