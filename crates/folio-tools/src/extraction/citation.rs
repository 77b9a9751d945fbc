//! Citations of an extraction: reads the text of the document twice, to search its values and to quote them.

use std::collections::BTreeSet;

use folio_resources::{CITATIONS_MAX, Citation, Document, QUOTE_CHARS, REPORT_PATH_BYTES, WordBoxes, words};
use folio_storage::Stores;
use folio_storage::value::PageText;
use folio_types::{Error, OrgId, Result};
use serde_json::Value;

use super::location::{Located, Location, Search, SearchResult};

/// Number of pages of one read.
const PAGES_AT_ONCE: u32 = 16;

/// The citations of an extraction.
#[derive(Debug, Default)]
pub struct Cited {
    /// The first citations, in the order of the data.
    pub citations: Vec<Citation>,
    /// Number of values that the text contains.
    pub located: u32,
    /// Number of values that the text does not contain.
    pub inferred: u32,
}

/// Finds the values of the data in the text of the document. Cost: the text is read twice; a page takes about a millisecond.
pub async fn cite(stores: &Stores, org: &OrgId, document: &Document, data: &Value) -> Result<Cited> {
    let mut search = Search::new(data);
    for first in (1..=document.pages).step_by(PAGES_AT_ONCE as usize) {
        let pages = stores.texts.text(org, document.id.as_str(), first, PAGES_AT_ONCE).await?;
        search = blocking(move || {
            pages.iter().for_each(|page| search.add_page(page.number, &page.text));
            search
        })
        .await?;
    }
    let SearchResult { mut located, missing } = blocking(move || search.finish()).await?;
    let count = u32::try_from(located.len()).unwrap_or(u32::MAX);
    located.retain(|found| found.path.len() <= REPORT_PATH_BYTES);
    located.truncate(CITATIONS_MAX);
    let citations = quote(stores, org, document, located).await?;
    Ok(Cited { citations, located: count, inferred: missing })
}

/// Runs a search, which would block an async thread for too long.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::internal(format!("the search for extracted values failed: {error}")))
}

/// Reads the pages of the locations, and quotes them. A location whose page has changed meanwhile has no citation.
async fn quote(stores: &Stores, org: &OrgId, document: &Document, located: Vec<Located>) -> Result<Vec<Citation>> {
    let mut needed: BTreeSet<u32> = located.iter().map(|found| found.location.page).collect();
    let mut citations: Vec<Option<Citation>> = located.iter().map(|_| None).collect();
    while let Some(first) = needed.pop_first() {
        let (texts, id) = (&stores.texts, document.id.as_str());
        let end = first.saturating_add(PAGES_AT_ONCE);
        let last = needed.range(..end).next_back().copied().unwrap_or(first);
        needed = needed.split_off(&end);
        let count = last - first + 1;
        let (pages, boxes) = tokio::try_join!(texts.text(org, id, first, count), texts.boxes(org, id, first, count))?;
        for PageText { number, text, .. } in pages {
            let boxes = boxes.iter().find(|page| page.number == number).map(|page| &page.boxes);
            let page = Page::new(&text, boxes);
            for (found, citation) in located.iter().zip(&mut citations) {
                if found.location.page == number {
                    *citation = page.citation(found);
                }
            }
        }
    }
    Ok(citations.into_iter().flatten().collect())
}

/// A page with the positions of its words.
struct Page<'a> {
    text: &'a str,
    boxes: Option<&'a WordBoxes>,
    /// The byte ranges of the words.
    words: Vec<std::ops::Range<usize>>,
}

impl<'a> Page<'a> {
    fn new(text: &'a str, boxes: Option<&'a WordBoxes>) -> Self {
        Self { text, boxes, words: words(text).map(|(range, _)| range).collect() }
    }

    fn citation(&self, Located { path, location, occurrences }: &Located) -> Option<Citation> {
        let Location { page, first_word, last_word } = *location;
        let (first, last) = (self.words.get(first_word)?, self.words.get(last_word)?);
        let (before, rest) = (self.text.get(..first.start)?, self.text.get(first.start..last.end)?);
        Some(Citation {
            path: path.clone(),
            page,
            quote: rest.chars().take(QUOTE_CHARS).collect(),
            start: u32::try_from(before.chars().count()).ok()?,
            occurrences: *occurrences,
            boxes: self.boxes.map(|boxes| boxes.part(first_word..last_word + 1)).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use folio_resources::BoundingBox;

    use super::*;

    #[test]
    fn a_quote_has_the_characters_and_the_boxes_of_its_words() {
        let text = "Größe 5\nTotal:  1 234,50 €";
        let word = |at: u32| BoundingBox::around([(f64::from(at), 0.0), (f64::from(at) + 1.0, 1.0)]);
        let boxes = WordBoxes::new(10.0, 1.0, (0..6).map(word));
        let page = Page::new(text, Some(&boxes));
        let at = |first_word, last_word| {
            let location = Location { page: 3, first_word, last_word };
            page.citation(&Located { path: "total".to_owned(), location, occurrences: 2 })
        };
        let citation = at(3, 4).unwrap();
        assert_eq!((citation.quote.as_str(), citation.start, citation.page), ("1 234,50", 16, 3));
        assert_eq!((citation.boxes.len(), citation.boxes.fractions(1)), (2, boxes.fractions(4)));
        assert_eq!(text.chars().skip(16).take(8).collect::<String>(), "1 234,50");
        assert_eq!(at(5, 6), None, "the page has changed");
        assert!(
            Page::new(text, None)
                .citation(&Located {
                    path: String::new(),
                    location: Location { page: 1, first_word: 0, last_word: 0 },
                    occurrences: 1
                })
                .unwrap()
                .boxes
                .is_empty()
        );
    }
}
