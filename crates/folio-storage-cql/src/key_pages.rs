//! The keys of a part of a resource's partition, page by page.

use folio_types::{OrgId, Result};

use super::keyspace::Keyspace;
use super::table::Part;

/// Maximum rows that are read at once, and that one batch removes.
// proto: none "bounds a batch"
pub(crate) const PAGE_ROWS_MAX: usize = 100;

/// A position in the keys of a part. A page begins behind the last key of the page before, so that no read returns to the
/// deleted rows of earlier pages.
pub(crate) struct KeyPages<'a> {
    keyspace: &'a Keyspace,
    org: &'a OrgId,
    id: &'a str,
    part: Part,
    /// The last key of the page before, empty at the start. None: that page was the last one.
    after: Option<String>,
}

impl<'a> KeyPages<'a> {
    pub(crate) fn new(keyspace: &'a Keyspace, org: &'a OrgId, id: &'a str, part: Part) -> Self {
        Self { keyspace, org, id, part, after: Some(String::new()) }
    }

    /// Returns the keys of the next page, in order. None: no key remains.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<String>>> {
        let Some(after) = &self.after else { return Ok(None) };
        let aggregates = &self.keyspace.tables.aggregates;
        let page = aggregates.keys(self.org, self.id, (self.part, after), PAGE_ROWS_MAX).await?;
        self.after = page.get(PAGE_ROWS_MAX - 1).cloned();
        Ok((!page.is_empty()).then_some(page))
    }
}
