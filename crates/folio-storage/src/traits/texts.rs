//! Pages of text of resources whose kind has text. The [`super::BlobStore`] contains the bytes of their files.

use async_trait::async_trait;
use folio_resources::{CellPosition, PageStructure, TextRecord, TextState, WordBoxes};
use folio_types::{OrgId, Result, Timestamp};

use crate::value::{PageBoxes, PageElements, PageHeadings, PageText, Stored, TextGap, encode};

#[derive(Debug, Clone, PartialEq)]
pub struct NewPage {
    /// Page numbers start at 1.
    pub number: u32,
    pub text: String,
    /// The boxes of the words of the text. Empty: the positions of the words are unknown.
    pub boxes: WordBoxes,
    /// None: the text is complete.
    pub gap: Option<TextGap>,
    /// The position of the first cell of the table in the text of a sheet. None: the page is no sheet, or the position is
    /// unknown.
    pub first_cell: Option<CellPosition>,
    pub structure: PageStructure,
}

impl NewPage {
    /// A page with its complete text, whose words have no boxes.
    pub fn of_text(number: u32, text: impl Into<String>) -> Self {
        let (text, structure) = (text.into(), PageStructure::default());
        Self { number, text, boxes: WordBoxes::default(), gap: None, first_cell: None, structure }
    }

    /// Returns the bytes that count as storage: those of the text, of its boxes and of its structure.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64 + self.boxes.bytes() + self.structure.bytes()
    }

    /// Returns the stored values of the page. Only the text is always stored.
    pub fn encode(self) -> Result<Vec<(PageRow, Vec<u8>)>> {
        fn row<T: Stored>(row: PageRow, value: &T) -> Result<(PageRow, Vec<u8>)> {
            Ok((row, encode(value)?))
        }
        let Self { number, text, boxes, gap, first_cell, structure } = self;
        let mut rows = vec![row(PageRow::Text, &PageText { number, text, gap, first_cell })?];
        if !boxes.is_empty() {
            rows.push(row(PageRow::WordBoxes, &PageBoxes { number, boxes })?);
        }
        let has_elements = structure.has_elements();
        let PageStructure { headings, tables, links, images } = structure;
        if !headings.is_empty() {
            rows.push(row(PageRow::Headings, &PageHeadings { number, headings })?);
        }
        if has_elements {
            rows.push(row(PageRow::Elements, &PageElements { number, tables, links, images })?);
        }
        Ok(rows)
    }
}

/// The stored values of a page. Each has a row of its own, because most reads need one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageRow {
    Text,
    WordBoxes,
    Headings,
    Elements,
}

/// The result of a step of ingestion. Storing it does not change the resource's `version`, and has no effect on a
/// deleted resource.
#[derive(Debug, Clone, PartialEq)]
pub struct IngestUpdate {
    pub state: TextState,
    /// All pages. Empty if the step did not read the text.
    pub pages: Vec<NewPage>,
    /// True: a program that is not installed could read more text. The resource remains in the index of
    /// [`TextWait::Program`], although its state is settled.
    pub lacks_program: bool,
    pub at: Timestamp,
}

/// The condition that a resource waits for before its text can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextWait {
    /// A free worker: the state of the text is `uploaded` or `processing`.
    Worker,
    /// A program that was not installed when the file was read: the state of the text is settled.
    Program,
}

impl TextWait {
    /// Returns the name of the stored index of the waiting texts.
    pub fn index_name(self) -> &'static str {
        match self {
            Self::Worker => "pending_text",
            Self::Program => "missing_program",
        }
    }

    /// Returns the condition that a text waits for. None: its state is settled and no program is missing. `text` is
    /// None before the first step of ingestion.
    pub fn of(text: Option<&TextRecord>) -> Option<Self> {
        match text {
            Some(text) if text.text.is_settled() => text.lacks_program.then_some(Self::Program),
            Some(_) | None => Some(Self::Worker),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingText {
    pub org: OrgId,
    pub id: String,
    /// Number of attempts since the last settled state, as in [`TextRecord::attempts`]. The number limits the attempts
    /// on a file that crashes the process.
    pub attempts: u32,
}

/// Texts by the ids of their resources.
#[async_trait]
pub trait TextStore: Send + Sync {
    async fn ingest(&self, org: &OrgId, id: &str, update: IngestUpdate) -> Result<()>;

    /// Returns the pages from number `from` on (1: the first page) of a live resource, in order, at most `count`.
    async fn text(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageText>>;

    /// Returns the boxes of the words of the same pages that [`TextStore::text`] returns, without pages that have none.
    async fn boxes(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageBoxes>>;

    /// Returns the headings of the pages from number `from` on, at most `count` pages, without pages that have none.
    async fn headings(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageHeadings>>;

    /// Returns the tables, links and images of the same pages, without pages that have none.
    async fn elements(&self, org: &OrgId, id: &str, from: u32, count: u32) -> Result<Vec<PageElements>>;

    /// Returns at most `limit` live resources, of all organizations, whose text waits for `waits_for`, in a fixed
    /// order. The result begins after the position of `after`, even if that resource no longer waits. None: the result
    /// begins with the first resource. Each condition has an index, which no client request reads. A resource is in at
    /// most one of these indexes.
    async fn waiting_texts(
        &self,
        waits_for: TextWait,
        after: Option<&PendingText>,
        limit: usize,
    ) -> Result<Vec<PendingText>>;
}

#[cfg(test)]
mod tests {
    use folio_resources::text_record_of;

    use super::*;

    #[test]
    fn a_text_waits_until_it_is_settled_and_then_for_a_missing_program() {
        let waits = |text: TextState, lacks_program| {
            let record = text_record_of(None, text, 0, lacks_program, Timestamp::UNIX_EPOCH);
            TextWait::of(Some(&record))
        };
        assert_eq!(TextWait::of(None), Some(TextWait::Worker));
        for open in [TextState::Uploaded, TextState::Processing] {
            assert_eq!([false, true].map(|lacks| waits(open.clone(), lacks)), [Some(TextWait::Worker); 2]);
        }
        for settled in [TextState::Ready, TextState::NoText("blank".to_owned())] {
            let found = [false, true].map(|lacks| waits(settled.clone(), lacks));
            assert_eq!(found, [None, Some(TextWait::Program)]);
        }
    }
}
