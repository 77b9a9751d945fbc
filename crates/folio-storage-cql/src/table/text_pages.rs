//! `text_pages`: one partition for each generation of a text. The partition of its resource has the valid generation.

use folio_types::{OrgId, Result};

use crate::session::Read;
use crate::values::{limit, values};

table! { TextPages:
    put: write "INSERT INTO text_pages (org, id, generation, page, value) VALUES (?, ?, ?, ?, ?)",
    pages: read "SELECT value FROM text_pages WHERE org = ? AND id = ? AND generation = ? AND page >= ? AND page < ? LIMIT ?",
    remove: write "DELETE FROM text_pages WHERE org = ? AND id = ? AND generation = ?",
}

impl TextPages {
    pub(crate) async fn put(
        &self,
        (org, id): (&OrgId, &str),
        generation: &str,
        page: u32,
        value: Vec<u8>,
    ) -> Result<()> {
        let page = i32::try_from(page).unwrap_or(i32::MAX);
        self.cql.write(&self.put, values![org.as_str(), id, generation, page, value]).await
    }

    /// Returns at most `count` pages from number `from` on.
    pub(crate) async fn pages(
        &self,
        (org, id): (&OrgId, &str),
        generation: &str,
        from: u32,
        count: u32,
    ) -> Result<Vec<Vec<u8>>> {
        let number = |page: u32| i32::try_from(page).unwrap_or(i32::MAX);
        let before = number(from.saturating_add(count));
        let rows = limit(count.max(1) as usize);
        let values = values![org.as_str(), id, generation, number(from), before, rows];
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(&self.pages, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn remove(&self, (org, id): (&OrgId, &str), generation: &str) -> Result<()> {
        self.cql.write(&self.remove, values![org.as_str(), id, generation]).await
    }
}
