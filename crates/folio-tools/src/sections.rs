//! Sections of documents: the outline of a text, and the text of a section within a number of tokens.
//!
//! The structure is stored with the text, so that no call reads the file. The outlines of the texts in use are cached: a run that reads
//! many sections of a document reads its headings once.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use folio_llm::count_tokens;
use folio_resources::{Document, Outline, Section, SectionId, SectionRest, TextId, TextPosition, words};
use folio_storage::Stores;
use folio_types::{Error, OrgId, Result};
use moka::sync::Cache;

use crate::document_text::{check_ready, fitting, for_each_page};

/// Default maximum number of tokens of the text of a section.
// proto: GetSectionRequest.max_tokens "Default: {}."
pub const SECTION_TOKENS_DEFAULT: u32 = 2_000;
/// Largest accepted number of tokens of the text of a section.
// proto: GetSectionRequest.max_tokens "at most {}"
pub const SECTION_TOKENS_MAX: u32 = 100_000;
/// Memory of the cached outlines of a process in bytes.
// proto: none "internal; an outline that does not fit is read again"
const CACHE_BYTES: u64 = 32 * 1024 * 1024;
/// Time after which an unused outline is removed from the cache.
const CACHE_IDLE: Duration = Duration::from_secs(600);

/// Outlines of texts, by organization and generation of the text. Clones share the cache.
#[derive(Debug, Clone)]
pub struct OutlineCache(Cache<(OrgId, TextId), Arc<Outline>>);

impl Default for OutlineCache {
    fn default() -> Self {
        let memory = |_: &(OrgId, TextId), outline: &Arc<Outline>| u32::try_from(outline.memory()).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(CACHE_BYTES).weigher(memory).time_to_idle(CACHE_IDLE).build())
    }
}

impl OutlineCache {
    /// Returns the outline of a document's text.
    ///
    /// # Errors
    /// `NO_TEXT` if the document has no text.
    pub async fn outline(&self, stores: &Stores, document: &Document) -> Result<(TextId, Arc<Outline>)> {
        check_ready(document)?;
        let text = TextId::of(document).ok_or_else(|| Error::internal("a text that is ready has no generation"))?;
        let key = (document.org.clone(), text.clone());
        if let Some(outline) = self.0.get(&key) {
            return Ok((text, outline));
        }
        let pages = stores.texts.headings(&document.org, document.id.as_str(), 1, document.pages).await?;
        let outline = Arc::new(Outline::new(pages.into_iter().map(|page| (page.number, page.headings))));
        self.0.insert(key, Arc::clone(&outline));
        Ok((text, outline))
    }
}

/// A part of the text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePart {
    /// The number of the page, from 1.
    pub number: u32,
    pub text: String,
}

/// The text of a section, or the beginning of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionText {
    pub section: Section,
    /// The parts of the pages with text, in order.
    pub pages: Vec<PagePart>,
    /// About the number of tokens of the text.
    pub tokens: u64,
    /// The id of the rest. None: the text is complete.
    pub rest: Option<SectionId>,
}

/// The bounds of the text of a section.
#[derive(Debug, Clone, Copy)]
pub struct SectionBounds {
    pub tokens: u64,
    pub bytes: usize,
}

/// Reads a section with the sections that it contains, or the rest of it. A text that exceeds a bound is cut, but has at least one
/// character.
///
/// # Errors
/// `NO_TEXT` if the document has no text, `VERSION_CONFLICT` if the text was extracted again, `INVALID_FIELD` of `section_id` if the text
/// has no such section.
pub async fn read_section(
    stores: &Stores,
    outlines: &OutlineCache,
    document: &Document,
    id: &SectionId,
    bounds: SectionBounds,
) -> Result<SectionText> {
    let (_, outline) = outlines.outline(stores, document).await?;
    id.text.check_current(document)?;
    let section = outline.section(id.number).ok_or_else(|| {
        let last = outline.sections().last().map_or(0, |section| section.number);
        Error::invalid_field("section_id", format!("the document has no section {}; the last one is {last}", id.number))
    })?;
    let last_page = section.last_page(document.pages);
    let first_page = id.rest.map_or(section.start.page, |rest| rest.page);
    if !(section.start.page..=last_page).contains(&first_page) {
        let problem = format!("the section ends on page {last_page}: the id continues on page {first_page}");
        return Err(Error::invalid_field("section_id", problem));
    }
    let mut reader = PartReader { section, rest: id.rest, bounds, tokens: 0, bytes: 0, pages: Vec::new(), next: None };
    let pages = (first_page, last_page.saturating_sub(first_page).saturating_add(1));
    for_each_page(stores, &document.org, &document.id, pages, |page| reader.add(page.number, &page.text)).await?;
    let rest = reader.next.map(|rest| SectionId { rest: Some(rest), ..id.clone() });
    Ok(SectionText { pages: reader.pages, tokens: reader.tokens, section: section.clone(), rest })
}

/// Collects the text of a section page by page.
struct PartReader<'s> {
    section: &'s Section,
    /// The position at which the text begins. None: the start of the section.
    rest: Option<SectionRest>,
    bounds: SectionBounds,
    tokens: u64,
    bytes: usize,
    pages: Vec<PagePart>,
    /// The start of the text that did not fit.
    next: Option<SectionRest>,
}

impl PartReader<'_> {
    fn add(&mut self, number: u32, text: &str) -> ControlFlow<()> {
        let from = match self.rest {
            Some(rest) if rest.page == number => text.floor_char_boundary((rest.byte as usize).min(text.len())),
            None if self.section.start.page == number => byte_of(text, self.section.start),
            _ => 0,
        };
        let to = match self.section.end {
            Some(end) if end.page == number => byte_of(text, end),
            _ => text.len(),
        };
        let part = text.get(from..to).unwrap_or_default().trim_end();
        if part.trim().is_empty() {
            return ControlFlow::Continue(());
        }
        let tokens = count_tokens(part);
        let (tokens_left, bytes_left) =
            (self.bounds.tokens.saturating_sub(self.tokens), self.bounds.bytes.saturating_sub(self.bytes));
        if tokens <= tokens_left && part.len() <= bytes_left {
            self.push(number, part, tokens);
            return ControlFlow::Continue(());
        }
        let fitting_bytes = part.get(..part.floor_char_boundary(bytes_left)).unwrap_or_default();
        let fit = fitting(fitting_bytes, tokens_left);
        let end = match at_blank(part, fit) {
            Some(end) => end,
            // The next part begins with the word.
            None if !self.pages.is_empty() => 0,
            None => fit.max(part.chars().next().map_or(0, char::len_utf8)),
        };
        let kept = part.get(..end).unwrap_or_default();
        if !kept.trim().is_empty() {
            self.push(number, kept, count_tokens(kept));
        }
        let byte = u32::try_from(from + end).unwrap_or(u32::MAX);
        self.next = Some(SectionRest { page: number, byte });
        ControlFlow::Break(())
    }

    fn push(&mut self, number: u32, text: &str, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens);
        self.bytes = self.bytes.saturating_add(text.len());
        self.pages.push(PagePart { number, text: text.to_owned() });
    }
}

/// Returns the last position in the second half of the first `end` bytes at which no word is divided.
fn at_blank(text: &str, end: usize) -> Option<usize> {
    let (kept, rest) = text.split_at_checked(end)?;
    if end > 0 && rest.starts_with(char::is_whitespace) {
        return Some(end);
    }
    let blank = kept.char_indices().rev().find(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
    blank.filter(|at| *at > end / 2)
}

fn byte_of(text: &str, position: TextPosition) -> usize {
    words(text).nth(position.word as usize).map_or(text.len(), |(range, _)| range.start)
}

#[cfg(test)]
mod tests {
    use folio_resources::Heading;

    use super::*;

    const PAGES: [&str; 3] = ["intro words\n# One\nfirst text", "more of one\n\n## Inner\ninner text\n", "# Two\nend"];

    fn outline() -> Outline {
        let heading = |level, title: &str, word| Heading { level, title: title.to_owned(), word };
        Outline::new([
            (1, vec![heading(1, "One", 2)]),
            (2, vec![heading(2, "Inner", 3)]),
            (3, vec![heading(1, "Two", 0)]),
        ])
    }

    /// Reads a section in parts of at most `tokens` tokens.
    fn parts(number: u32, tokens: u64) -> Vec<Vec<(u32, String)>> {
        let outline = outline();
        let section = outline.section(number).unwrap();
        let (mut parts, mut rest) = (Vec::new(), None);
        loop {
            let bounds = SectionBounds { tokens, bytes: 1_000 };
            let mut reader = PartReader { section, rest, bounds, tokens: 0, bytes: 0, pages: Vec::new(), next: None };
            let first = rest.map_or(section.start.page, |rest: SectionRest| rest.page);
            for page in first..=section.last_page(3) {
                if reader.add(page, PAGES[page as usize - 1]).is_break() {
                    break;
                }
            }
            assert!(reader.tokens <= tokens || reader.pages.len() == 1);
            parts.push(reader.pages.into_iter().map(|part| (part.number, part.text)).collect());
            rest = reader.next;
            if rest.is_none() {
                return parts;
            }
        }
    }

    #[test]
    fn a_section_contains_the_text_of_its_sections() {
        let page = |number, text: &str| (number, text.to_owned());
        assert_eq!(parts(0, 1_000), [[page(1, "intro words")]]);
        let one = [page(1, "# One\nfirst text"), page(2, "more of one\n\n## Inner\ninner text")];
        assert_eq!(parts(1, 1_000), [one]);
        assert_eq!(parts(2, 1_000), [[page(2, "## Inner\ninner text")]]);
        assert_eq!(parts(3, 1_000), [[page(3, "# Two\nend")]]);
    }

    #[test]
    fn the_parts_of_a_section_are_its_text() {
        let all = |parts: Vec<Vec<(u32, String)>>| -> Vec<String> {
            let texts = parts.into_iter().flatten();
            texts.flat_map(|(_, text)| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
        };
        let whole = all(parts(1, 1_000));
        for tokens in 4..12 {
            let found = parts(1, tokens);
            assert!(found.len() > 1);
            assert_eq!(all(found), whole, "{tokens}");
        }
        // A bound below the size of a word divides it, and each part has at least one character.
        assert_eq!(all(parts(3, 0)).concat(), "#Twoend");
    }
}
