//! `text_pages`: one partition for each generation of a text. The partition of its resource has the valid generation.

use folio_types::{OrgId, Result};
use scylla::statement::prepared::PreparedStatement;

use crate::session::{Cql, ReadConsistency, Select, StatementKind};
use crate::values::{limit, values};

pub(crate) struct TextPages {
    put: PreparedStatement,
    pages: Select,
    remove: PreparedStatement,
}

impl TextPages {
    pub(crate) async fn prepare(cql: &Cql) -> Result<Self> {
        let put = "INSERT INTO text_pages (org, id, generation, page, value) VALUES (?, ?, ?, ?, ?)";
        Ok(Self {
            put: cql.prepare(put, StatementKind::Write).await?,
            pages: cql
                .select(
                    "SELECT value FROM text_pages \
                     WHERE org = ? AND id = ? AND generation = ? AND page >= ? AND page < ? LIMIT ?",
                )
                .await?,
            remove: cql
                .prepare("DELETE FROM text_pages WHERE org = ? AND id = ? AND generation = ?", StatementKind::Write)
                .await?,
        })
    }

    pub(crate) async fn put(
        &self,
        cql: &Cql,
        (org, id): (&OrgId, &str),
        generation: &str,
        page: u32,
        value: Vec<u8>,
    ) -> Result<()> {
        let page = i32::try_from(page).unwrap_or(i32::MAX);
        cql.write(&self.put, values![org.as_str(), id, generation, page, value]).await
    }

    /// Returns at most `count` pages from number `from` on.
    pub(crate) async fn pages(
        &self,
        cql: &Cql,
        (org, id): (&OrgId, &str),
        generation: &str,
        from: u32,
        count: u32,
    ) -> Result<Vec<Vec<u8>>> {
        let number = |page: u32| i32::try_from(page).unwrap_or(i32::MAX);
        let before = number(from.saturating_add(count));
        let rows = limit(count.max(1) as usize);
        let values = values![org.as_str(), id, generation, number(from), before, rows];
        let rows: Vec<(Vec<u8>,)> = cql.rows(&self.pages, ReadConsistency::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn remove(&self, cql: &Cql, (org, id): (&OrgId, &str), generation: &str) -> Result<()> {
        cql.write(&self.remove, values![org.as_str(), id, generation]).await
    }
}
