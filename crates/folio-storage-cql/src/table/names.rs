//! `names`: one partition for each name of a kind, with the resource that claimed it and the op that reserved it.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{ConditionalResult, Cql, ReadConsistency, Select, StatementKind};
use crate::values::values;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameRow {
    pub(crate) id: String,
    pub(crate) op: String,
    /// The time of the reservation, in microseconds by the clock of the reserving process.
    pub(crate) at: i64,
}

pub(crate) struct Names {
    get: Select,
    reserve: PreparedStatement,
    replace: PreparedStatement,
    free: PreparedStatement,
}

impl Names {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let conditional = |text: &'static str| cql.prepare(text, StatementKind::Conditional);
        Ok(Self {
            get: cql.select("SELECT id, op, at FROM names WHERE org = ? AND kind = ? AND name = ?").await?,
            reserve: conditional(
                "INSERT INTO names (org, kind, name, id, op, at) VALUES (?, ?, ?, ?, ?, ?) IF NOT EXISTS",
            )
            .await?,
            replace: conditional(
                "UPDATE names SET id = ?, op = ?, at = ? WHERE org = ? AND kind = ? AND name = ? IF op = ? AND id = ?",
            )
            .await?,
            free: conditional("DELETE FROM names WHERE org = ? AND kind = ? AND name = ? IF op = ? AND id = ?").await?,
        })
    }

    /// `name` is folded.
    pub(crate) async fn get(
        &self,
        cql: &Cql,
        org: &OrgId,
        (kind, name): (&str, &str),
        consistency: ReadConsistency,
    ) -> Result<Option<NameRow>> {
        let values = values![org.as_str(), kind, name];
        let row: Option<(String, String, i64)> = cql.row(&self.get, consistency, values).await?;
        Ok(row.map(|(id, op, at)| NameRow { id, op, at }))
    }

    pub(crate) async fn reserve(
        &self,
        cql: &Cql,
        org: &OrgId,
        (kind, name): (&str, &str),
        row: &NameRow,
    ) -> Result<ConditionalResult> {
        let values = values![org.as_str(), kind, name, &row.id, &row.op, row.at];
        cql.conditional(&self.reserve, values).await
    }

    /// Replaces the row `read`; refused if another row is stored.
    pub(crate) async fn replace(
        &self,
        cql: &Cql,
        org: &OrgId,
        (kind, name): (&str, &str),
        (read, row): (&NameRow, &NameRow),
    ) -> Result<ConditionalResult> {
        let values = values![&row.id, &row.op, row.at, org.as_str(), kind, name, &read.op, &read.id];
        cql.conditional(&self.replace, values).await
    }

    /// Removes the row `read`; refused if another row is stored.
    pub(crate) async fn free(
        &self,
        cql: &Cql,
        org: &OrgId,
        (kind, name): (&str, &str),
        read: &NameRow,
    ) -> Result<ConditionalResult> {
        cql.conditional(&self.free, values![org.as_str(), kind, name, &read.op, &read.id]).await
    }
}
