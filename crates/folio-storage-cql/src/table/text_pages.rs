//! `text_pages` and `text_boxes`: one partition for each generation of a text. The partition of its resource has the valid
//! generation.

use folio_types::{OrgId, Result};

use crate::session::Read;
use crate::values::{limit, values};

table! { TextPages:
    put: write "INSERT INTO text_pages (org, id, generation, page, value) VALUES (?, ?, ?, ?, ?)",
    pages: read "SELECT value FROM text_pages WHERE org = ? AND id = ? AND generation = ? AND page >= ? AND page < ? LIMIT ?",
    remove: write "DELETE FROM text_pages WHERE org = ? AND id = ? AND generation = ?",
    put_boxes: write "INSERT INTO text_boxes (org, id, generation, page, value) VALUES (?, ?, ?, ?, ?)",
    boxes: read "SELECT value FROM text_boxes WHERE org = ? AND id = ? AND generation = ? AND page >= ? AND page < ? LIMIT ?",
    remove_boxes: write "DELETE FROM text_boxes WHERE org = ? AND id = ? AND generation = ?",
}

/// The rows of a page of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageRow {
    Text,
    WordBoxes,
}

impl TextPages {
    pub(crate) async fn put(
        &self,
        (org, id): (&OrgId, &str),
        generation: &str,
        (page, row): (u32, PageRow),
        value: Vec<u8>,
    ) -> Result<()> {
        let page = i32::try_from(page).unwrap_or(i32::MAX);
        let statement = match row {
            PageRow::Text => &self.put,
            PageRow::WordBoxes => &self.put_boxes,
        };
        self.cql.write(statement, values![org.as_str(), id, generation, page, value]).await
    }

    /// Returns at most `count` rows of pages from number `from` on.
    pub(crate) async fn pages(
        &self,
        (org, id): (&OrgId, &str),
        generation: &str,
        row: PageRow,
        (from, count): (u32, u32),
    ) -> Result<Vec<Vec<u8>>> {
        let number = |page: u32| i32::try_from(page).unwrap_or(i32::MAX);
        let before = number(from.saturating_add(count));
        let rows = limit(count.max(1) as usize);
        let values = values![org.as_str(), id, generation, number(from), before, rows];
        let statement = match row {
            PageRow::Text => &self.pages,
            PageRow::WordBoxes => &self.boxes,
        };
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(statement, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn remove(&self, (org, id): (&OrgId, &str), generation: &str) -> Result<()> {
        self.cql.write(&self.remove_boxes, values![org.as_str(), id, generation]).await?;
        self.cql.write(&self.remove, values![org.as_str(), id, generation]).await
    }
}
