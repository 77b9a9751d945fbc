//! The text of a document as input of chunks: its sections with their paragraphs and tables.
//!
//! [`read`] reads one generation of a text from the store; everything else is pure.

use std::collections::HashMap;
use std::ops::Range;

use folio_passages::{Block, Section, Span, TableRow};
use folio_resources::{Document, Outline, Table, TextId, TextPosition, words};
use folio_storage::Stores;
use folio_tools::sections::OutlineCache;
use folio_types::{Error, Reason, Result};

/// Pages per read of the store.
const PAGES_AT_ONCE: u32 = 20;
/// Maximum bytes of the text of a document: the bound of chunks.
const TEXT_BYTES: usize = 64 * 1024 * 1024;
/// Maximum bytes of a paragraph. A longer one is divided.
const PARAGRAPH_BYTES: usize = 1024 * 1024;
/// Maximum cells of a row of a table. A table with wider rows is read as text.
const ROW_CELLS_MAX: usize = 1_000;

/// The text of a page with its tables.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    /// Page numbers start at 1.
    number: u32,
    text: String,
    /// In the order of their words.
    tables: Vec<Table>,
}

/// Reads the sections of the current text of a document.
///
/// # Errors
/// `NO_TEXT`; `TOO_LARGE`; `VERSION_CONFLICT` if the text was extracted again meanwhile, so that the caller repeats the call.
pub(crate) async fn read(stores: &Stores, outlines: &OutlineCache, document: &Document) -> Result<Vec<Section>> {
    let (text, outline) = outlines.outline(stores, document).await?;
    let (org, id) = (&document.org, document.id.as_str());
    let (mut pages, mut bytes, mut from) = (Vec::new(), 0_usize, 1_u32);
    while from <= document.pages {
        let count = PAGES_AT_ONCE.min(document.pages - from + 1);
        let (texts, elements) =
            tokio::try_join!(stores.texts.text(org, id, from, count), stores.texts.elements(org, id, from, count))?;
        let mut tables: HashMap<u32, Vec<Table>> =
            elements.into_iter().map(|page| (page.number, page.tables)).collect();
        for page in texts {
            bytes = bytes.saturating_add(page.text.len());
            let mut tables = tables.remove(&page.number).unwrap_or_default();
            tables.sort_by_key(|table| table.word);
            pages.push(Page { number: page.number, text: page.text, tables });
        }
        if bytes > TEXT_BYTES {
            let problem = format!("has more than {TEXT_BYTES} bytes of text; split the document");
            return Err(Error::invalid_field("document", problem).with_reason(Reason::TooLarge));
        }
        from = from.saturating_add(count);
    }
    let found = stores.of::<Document>().get(org, &document.id).await?;
    if found.is_none_or(|found| found.text_generation != document.text_generation) {
        let message = format!("the text of {} was extracted again meanwhile; retry", document.id);
        return Err(Error::version_conflict(message));
    }
    // Dividing a long text would block the other tasks of the thread.
    let divided = tokio::task::spawn_blocking(move || sections(&text, &outline, &pages)).await;
    divided.map_err(|error| Error::internal(format!("the division of a text into sections failed: {error}")))
}

/// Returns the sections of a text with their blocks, in reading order.
fn sections(text: &TextId, outline: &Outline, pages: &[Page]) -> Vec<Section> {
    let mut paths: HashMap<u32, Vec<String>> = HashMap::new();
    let mut found: Vec<Section> = Vec::with_capacity(outline.sections().len());
    for section in outline.sections() {
        let mut title_path = section.parent.and_then(|parent| paths.get(&parent)).cloned().unwrap_or_default();
        if section.level > 0 {
            title_path.push(section.title.clone());
        }
        paths.insert(section.number, title_path.clone());
        let id = text.section(section.number);
        found.push(Section { id: id.to_string(), title_path, blocks: Vec::new() });
    }
    for page in pages {
        add_page(outline, page, &mut found);
    }
    found
}

/// Adds the blocks of a page to its sections. `found`: the sections of the outline, in order.
fn add_page(outline: &Outline, page: &Page, found: &mut [Section]) {
    let words: Vec<Range<usize>> = words(&page.text).map(|(range, _)| range).collect();
    let mut chars = Chars { text: &page.text, byte: 0, chars: 0 };
    let byte_of = |position: TextPosition| words.get(position.word as usize).map_or(page.text.len(), |word| word.start);
    let sections = outline.sections();
    let start = TextPosition { page: page.number, word: 0 };
    let first = sections.partition_point(|section| section.start <= start).saturating_sub(1);
    for (index, section) in sections.iter().enumerate().skip(first) {
        let from = if section.start.page == page.number { byte_of(section.start) } else { 0 };
        let next = index.checked_add(1).and_then(|next| sections.get(next));
        let next = next.filter(|next| next.start.page == page.number);
        let to = next.map_or(page.text.len(), |next| byte_of(next.start));
        if let Some(section) = found.get_mut(index) {
            add_blocks(page, &words, from..to, &mut chars, &mut section.blocks);
        }
        if next.is_none() {
            break;
        }
    }
}

/// Adds the paragraphs and tables in a part of a page.
fn add_blocks(page: &Page, words: &[Range<usize>], part: Range<usize>, chars: &mut Chars<'_>, into: &mut Vec<Block>) {
    let mut at = part.start;
    for table in &page.tables {
        let Some(range) = range_of(table, words) else { continue };
        if range.start < at || range.end > part.end {
            continue;
        }
        add_paragraphs(page, at..range.start, chars, into);
        let span = Span { page: page.number, start: chars.at(range.start), end: chars.at(range.end) };
        into.push(Block::Table {
            rows: table.rows.iter().map(|cells| TableRow { cells: cells.clone(), span }).collect(),
        });
        at = range.end;
    }
    add_paragraphs(page, at..part.end, chars, into);
}

/// Returns the bytes of a table in the text of its page. None: the table is read as text, because it lost rows, has very wide
/// rows, or exceeds the text.
fn range_of(table: &Table, words: &[Range<usize>]) -> Option<Range<usize>> {
    let is_complete = !table.is_cut && table.words > 0 && !table.rows.is_empty();
    let is_narrow = table.rows.iter().all(|row| row.len() <= ROW_CELLS_MAX);
    let last = table.word.checked_add(table.words)?.checked_sub(1)?;
    let (first, last) = (words.get(table.word as usize)?, words.get(last as usize)?);
    (is_complete && is_narrow).then_some(first.start..last.end)
}

/// Adds the paragraphs in a part of a page, which blank lines separate.
fn add_paragraphs(page: &Page, part: Range<usize>, chars: &mut Chars<'_>, into: &mut Vec<Block>) {
    let Some(text) = page.text.get(part.clone()) else { return };
    let (mut from, mut end) = (part.start, part.start);
    for line in text.split_inclusive('\n') {
        let next = end + line.len();
        if line.trim().is_empty() {
            add_paragraph(page, from..end, chars, into);
            from = next;
        }
        end = next;
    }
    add_paragraph(page, from..end, chars, into);
}

/// Adds a paragraph without the white space around it.
fn add_paragraph(page: &Page, part: Range<usize>, chars: &mut Chars<'_>, into: &mut Vec<Block>) {
    let text = page.text.get(part.clone()).unwrap_or_default();
    let mut at = part.start + (text.len() - text.trim_start().len());
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((paragraph, after)) = rest.split_at_checked(rest.floor_char_boundary(PARAGRAPH_BYTES)) else { return };
        into.push(Block::Paragraph { page: page.number, start: chars.at(at), text: paragraph.to_owned() });
        at += paragraph.len();
        rest = after;
    }
}

/// Converts ascending positions in a text from bytes to characters.
struct Chars<'t> {
    text: &'t str,
    byte: usize,
    chars: u32,
}

impl Chars<'_> {
    /// Returns the number of characters before a byte, which is not before that of the previous call.
    fn at(&mut self, byte: usize) -> u32 {
        let passed = self.text.get(self.byte..byte).map_or(0, |text| text.chars().count());
        self.byte = self.byte.max(byte);
        self.chars = self.chars.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        self.chars
    }
}

#[cfg(test)]
mod tests {
    use folio_resources::{Heading, NewDocument, SectionId, TextState};
    use folio_types::{BlobId, DocumentId, OrgId, Timestamp, UserId};

    use super::*;

    fn text_id() -> TextId {
        let (id, org, at) = (DocumentId::derive(&["d"]), OrgId::derive(&["o"]), Timestamp::constant(1_790_000_000, 0));
        let file = NewDocument::file("a.txt", "text/plain", b"x", BlobId::derive(&["b"]));
        let document = Document::uploaded(id, org, &file, UserId::platform(), at);
        TextId::of(&Document { state: TextState::Ready, text_generation: Some(at), ..document }).unwrap()
    }

    fn heading(level: u8, title: &str, word: u32) -> Heading {
        Heading { level, title: title.to_owned(), word }
    }

    fn page(number: u32, text: &str) -> Page {
        Page { number, text: text.to_owned(), tables: Vec::new() }
    }

    fn table(word: u32, words: u32, rows: &[&[&str]]) -> Table {
        let rows = rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect();
        Table { word, words, rows, area: None, is_cut: false }
    }

    /// Returns the title, and the text of the blocks, of each section. Checks that each paragraph is where it says.
    fn read(outline: &Outline, pages: &[Page]) -> Vec<(String, Vec<String>)> {
        let read_block = |block: &Block| match block {
            Block::Paragraph { page, start, text } => {
                let source = &pages.iter().find(|found| found.number == *page).unwrap().text;
                let found: String = source.chars().skip(*start as usize).take(text.chars().count()).collect();
                assert_eq!(found, *text);
                text.clone()
            }
            Block::Table { rows } => rows.iter().map(|row| row.cells.join("|")).collect::<Vec<_>>().join("/"),
        };
        let found = sections(&text_id(), outline, pages);
        let texts = |section: &Section| section.blocks.iter().map(read_block).collect();
        found.iter().map(|section| (section.title_path.join(">"), texts(section))).collect()
    }

    fn section(path: &str, texts: &[&str]) -> (String, Vec<String>) {
        (path.to_owned(), texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn each_section_has_its_own_text_and_the_titles_above_it() {
        let outline =
            Outline::new([(1, vec![heading(1, "One", 2), heading(2, "In", 6)]), (3, vec![heading(1, "Two", 1)])]);
        let pages = [
            page(1, "  intro ä\nOne first\nline\n\nsecond In part"),
            page(2, " more \n \nof in\n"),
            page(3, "end Two last"),
        ];
        assert_eq!(
            read(&outline, &pages),
            [
                section("", &["intro ä"]),
                section("One", &["One first\nline", "second"]),
                section("One>In", &["In part", "more", "of in", "end"]),
                section("Two", &["Two last"]),
            ]
        );
        let found = sections(&text_id(), &outline, &pages);
        assert!(found[1].id.parse::<SectionId>().is_ok());
    }

    #[test]
    fn a_table_is_a_block_between_paragraphs() {
        let outline = Outline::new([]);
        let text = "before ü\nItem Price\nPen 2\nafter";
        let rows: &[&[&str]] = &[&["Item", "Price"], &["Pen", "2"]];
        let of = |tables| read(&outline, &[Page { tables, ..page(1, text) }]);
        assert_eq!(of(vec![table(2, 4, rows)]), [section("", &["before ü", "Item|Price/Pen|2", "after"])]);
        let whole = [section("", &[text])];
        for refused in [
            Table { is_cut: true, ..table(2, 4, rows) },
            table(2, 0, rows),
            table(2, 90, rows),
            table(u32::MAX, 2, rows),
            table(2, 4, &[]),
        ] {
            assert_eq!(of(vec![refused.clone()]), whole, "{refused:?}");
        }
        let overlapping = of(vec![table(2, 4, rows), table(3, 2, rows)]);
        assert_eq!(overlapping, [section("", &["before ü", "Item|Price/Pen|2", "after"])]);
    }

    #[test]
    fn a_long_paragraph_is_divided_and_an_empty_page_has_no_block() {
        let outline = Outline::new([]);
        let found = read(&outline, &[page(1, &"ä".repeat(PARAGRAPH_BYTES)), page(2, " \n\n")]);
        assert_eq!(found[0].1.iter().map(String::len).collect::<Vec<_>>(), [PARAGRAPH_BYTES, PARAGRAPH_BYTES]);
        assert!(read(&outline, &[]).iter().all(|(_, texts)| texts.is_empty()));
    }
}
