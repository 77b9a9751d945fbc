//! `text_pages`, `text_boxes` and `text_structure`: one partition for each generation of a text. The partition of its resource has the valid
//! generation.

use folio_storage::PageRow;
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
    put_structure: write "INSERT INTO text_structure (org, id, generation, part, page, value) VALUES (?, ?, ?, ?, ?, ?)",
    structure: read "SELECT value FROM text_structure WHERE org = ? AND id = ? AND generation = ? AND part = ? AND page >= ? AND page < ? LIMIT ?",
    remove_structure: write "DELETE FROM text_structure WHERE org = ? AND id = ? AND generation = ?",
}

/// The parts of a partition of `text_structure`.
const HEADINGS: &str = "headings";
const ELEMENTS: &str = "elements";

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
            PageRow::Headings => return self.put_part((org, id), generation, (HEADINGS, page), value).await,
            PageRow::Elements => return self.put_part((org, id), generation, (ELEMENTS, page), value).await,
        };
        self.cql.write(statement, values![org.as_str(), id, generation, page, value]).await
    }

    async fn put_part(
        &self,
        (org, id): (&OrgId, &str),
        generation: &str,
        (part, page): (&str, i32),
        value: Vec<u8>,
    ) -> Result<()> {
        self.cql.write(&self.put_structure, values![org.as_str(), id, generation, part, page, value]).await
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
        let (org, from) = (org.as_str(), number(from));
        let (statement, values) = match row {
            PageRow::Text => (&self.pages, values![org, id, generation, from, before, rows]),
            PageRow::WordBoxes => (&self.boxes, values![org, id, generation, from, before, rows]),
            PageRow::Headings => (&self.structure, values![org, id, generation, HEADINGS, from, before, rows]),
            PageRow::Elements => (&self.structure, values![org, id, generation, ELEMENTS, from, before, rows]),
        };
        let rows: Vec<(Vec<u8>,)> = self.cql.rows(statement, Read::Quorum, values).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    pub(crate) async fn remove(&self, (org, id): (&OrgId, &str), generation: &str) -> Result<()> {
        self.cql.write(&self.remove_structure, values![org.as_str(), id, generation]).await?;
        self.cql.write(&self.remove_boxes, values![org.as_str(), id, generation]).await?;
        self.cql.write(&self.remove, values![org.as_str(), id, generation]).await
    }
}
