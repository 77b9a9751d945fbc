//! The structure of a document's text: headings, tables, links and embedded images by page.
//!
//! The structure belongs to one generation of the text. A position in the text is a page and a word, as in
//! [`WordBoxes`](crate::WordBoxes): word `n` is the part `n` of the text between white space. All sizes are bounded where the structure
//! is derived ([`PageStructure::bound`]), because a document is hostile input.

use serde::{Deserialize, Serialize};

use crate::BoundingBox;
use crate::word_boxes::{fraction, fraction_of};

/// Maximum number of headings of a document. Further headings are dropped.
// proto: DocumentService.GetDocumentStructure "at most {} headings"
pub const HEADINGS_MAX: usize = 2_000;
/// Maximum level of a heading. A deeper heading gets it.
// proto: DocumentSection.level "1 to {}."
pub const HEADING_LEVEL_MAX: u8 = 9;
/// Maximum length of the title of a heading, the text of a link and the caption of an image, in characters.
// proto: DocumentSection.title "{} characters"
// proto: DocumentLink.anchor_text "{} characters"
// proto: DocumentImage.caption "{} characters"
pub const ELEMENT_TEXT_CHARS: usize = 200;
/// Maximum number of tables of a page. Further tables are dropped.
// proto: DocumentService.GetDocumentStructure "{} tables"
pub const TABLES_PER_PAGE: usize = 32;
/// Maximum number of cells of a page. A table that exceeds it loses its last rows.
// proto: DocumentService.GetDocumentStructure "{} cells"
pub const CELLS_PER_PAGE: usize = 5_000;
/// Maximum number of links of a page. Further links are dropped.
// proto: DocumentService.ListLinks "at most {} links"
pub const LINKS_PER_PAGE: usize = 200;
/// Maximum size of the target of a link in bytes. A link with a longer target is dropped.
// proto: DocumentLink.url "at most {} bytes"
pub const LINK_TARGET_BYTES: usize = 1_024;
/// Maximum number of embedded images of a page. Further images are dropped.
// proto: DocumentService.ListImages "at most {} images"
pub const IMAGES_PER_PAGE: usize = 64;

/// An upright rectangle on a page, in 65,535ths of its width and height: left, top, right, bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageArea([u16; 4]);

impl PageArea {
    /// Stores a rectangle on a page of this size. Parts outside the page are cut off.
    pub fn new(area: BoundingBox, width: f64, height: f64) -> Self {
        let (left, top) = (fraction(area.left, width), fraction(area.top, height));
        Self([left, top, fraction(area.right, width).max(left), fraction(area.bottom, height).max(top)])
    }

    /// Stores a rectangle in fractions of the page (0 to 1).
    pub fn of_fractions(area: BoundingBox) -> Self {
        Self::new(area, 1.0, 1.0)
    }

    /// Returns the rectangle in fractions of the page (0 to 1).
    pub fn fractions(self) -> BoundingBox {
        let [left, top, right, bottom] = self.0.map(fraction_of);
        BoundingBox { left, top, right, bottom }
    }
}

/// A heading on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// 1 for the highest level.
    pub level: u8,
    pub title: String,
    /// The first word of the heading on its page, from 0.
    pub word: u32,
}

/// A table on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The first word of the table on its page, from 0.
    pub word: u32,
    /// Number of words from the first to the last one.
    pub words: u32,
    /// The cells by row. All rows have the same number of cells.
    pub rows: Vec<Vec<String>>,
    /// None: the format has no positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<PageArea>,
    /// True if rows were dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkTarget {
    /// A URL, or another text that the document contains as a target. It is hostile input.
    Url(String),
    /// A page of the same document, from 1.
    Page(u32),
}

/// A hyperlink on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The linked text. Empty: the link has none, such as that of an image.
    pub anchor: String,
    pub target: LinkTarget,
    /// None: the format has no positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<PageArea>,
}

/// An image on a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedImage {
    /// The number of the image on its page, from 1.
    pub number: u32,
    /// Width in pixels. 0: unknown.
    pub width: u32,
    /// Height in pixels. 0: unknown.
    pub height: u32,
    /// The text of the document that describes the image: a line next to it, or its alternative text. Empty: none was found.
    pub caption: String,
    /// None: the format has no positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<PageArea>,
}

/// The structure of a page. Empty: nothing was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageStructure {
    /// In the order of their words.
    pub headings: Vec<Heading>,
    pub tables: Vec<Table>,
    pub links: Vec<Link>,
    pub images: Vec<EmbeddedImage>,
}

impl PageStructure {
    /// Returns the structure within the bounds of a page. Headings are bounded for the whole document ([`HEADINGS_MAX`]).
    #[must_use]
    pub fn bound(mut self) -> Self {
        for heading in &mut self.headings {
            heading.level = heading.level.clamp(1, HEADING_LEVEL_MAX);
            cut(&mut heading.title);
        }
        self.headings.sort_by_key(|heading| heading.word);
        self.tables.truncate(TABLES_PER_PAGE);
        let mut cells = CELLS_PER_PAGE;
        for table in &mut self.tables {
            let columns = table.rows.first().map_or(1, Vec::len).max(1);
            let rows = cells / columns;
            table.is_cut |= rows < table.rows.len();
            table.rows.truncate(rows);
            cells -= table.rows.len() * columns;
        }
        self.tables.retain(|table| !table.rows.is_empty());
        self.links.retain(|link| !matches!(&link.target, LinkTarget::Url(url) if !is_url(url)));
        self.links.truncate(LINKS_PER_PAGE);
        self.links.iter_mut().for_each(|link| cut(&mut link.anchor));
        self.images.truncate(IMAGES_PER_PAGE);
        self.images.iter_mut().for_each(|image| cut(&mut image.caption));
        self
    }

    /// True if the page has tables, links or images.
    pub fn has_elements(&self) -> bool {
        !(self.tables.is_empty() && self.links.is_empty() && self.images.is_empty())
    }

    /// Returns the bytes that count as storage: those of the texts, and of numbers and areas before their encoding.
    pub fn bytes(&self) -> u64 {
        let headings = self.headings.iter().map(|heading| heading.title.len() + size_of::<(u8, u32)>());
        let cells = self.tables.iter().flat_map(|table| table.rows.iter().flatten()).map(String::len);
        let links = self.links.iter().map(|link| match &link.target {
            LinkTarget::Url(url) => link.anchor.len() + url.len(),
            LinkTarget::Page(_) => link.anchor.len(),
        });
        let images = self.images.iter().map(|image| image.caption.len());
        let elements = self.tables.len() + self.links.len() + self.images.len();
        (headings.chain(cells).chain(links).chain(images).sum::<usize>() + elements * size_of::<(PageArea, u64)>())
            as u64
    }
}

fn is_url(url: &str) -> bool {
    !url.is_empty() && url.len() <= LINK_TARGET_BYTES && !url.chars().any(char::is_control)
}

fn cut(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(ELEMENT_TEXT_CHARS) {
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: usize, columns: usize) -> Table {
        Table { word: 0, words: 1, rows: vec![vec!["c".to_owned(); columns]; rows], area: None, is_cut: false }
    }

    fn link(url: impl Into<String>) -> Link {
        Link { anchor: "a".repeat(500), target: LinkTarget::Url(url.into()), area: None }
    }

    #[test]
    fn a_page_is_cut_to_its_bounds() {
        let heading = |word| Heading { level: 40, title: "ü".repeat(300), word };
        let image = EmbeddedImage { number: 1, width: 1, height: 1, caption: "x".repeat(900), area: None };
        let bounded = PageStructure {
            headings: vec![heading(7), heading(2)],
            tables: vec![table(30, 100), table(30, 100), table(9, 9)],
            links: vec![link(""), link("a\nb"), link("x".repeat(LINK_TARGET_BYTES + 1)), link("https://example.com")],
            images: vec![image; IMAGES_PER_PAGE + 1],
        }
        .bound();
        assert_eq!(
            bounded.headings.iter().map(|heading| (heading.level, heading.word)).collect::<Vec<_>>(),
            [(9, 2), (9, 7)]
        );
        assert_eq!(bounded.headings[0].title.chars().count(), ELEMENT_TEXT_CHARS);
        let rows: Vec<_> = bounded.tables.iter().map(|table| (table.rows.len(), table.is_cut)).collect();
        assert_eq!(rows, [(30, false), (20, true)], "a page has 5,000 cells");
        assert_eq!(bounded.links.len(), 1);
        assert_eq!((bounded.images.len(), bounded.images[0].caption.len()), (IMAGES_PER_PAGE, ELEMENT_TEXT_CHARS));
        assert!(bounded.has_elements() && bounded.bytes() > 5_000);
        assert_eq!(PageStructure::default().bytes(), 0);
    }

    #[test]
    fn an_area_is_a_part_of_its_page() {
        let area = PageArea::new(BoundingBox { left: -5.0, top: 50.0, right: 50.0, bottom: 400.0 }, 100.0, 200.0);
        let found = area.fractions();
        for (found, expected) in [(found.left, 0.0), (found.top, 0.25), (found.right, 0.5), (found.bottom, 1.0)] {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
        assert_eq!(PageArea::of_fractions(found), area);
        let json = serde_json::to_string(&area).unwrap();
        assert_eq!(serde_json::from_str::<PageArea>(&json).unwrap(), area);
    }
}
