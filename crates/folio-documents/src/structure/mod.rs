//! Derives the structure of a document from the text of its pages: headings, tables, links and captions of images.
//!
//! The functions are pure. The text, the boxes of the words and the findings of the child process are hostile input: every list is
//! bounded, and the time is at most proportional to the size of the text.
//!
//! | text | headings | tables | links |
//! |---|---|---|---|
//! | with positions (PDF, page images) | bookmarks, otherwise sizes of the characters and numbers | words in columns | annotations |
//! | Markdown (office documents, HTML, mail, Markdown files) | Markdown | Markdown | Markdown |
//! | plain | numbers, and lines below headings | columns separated by blanks | – |
//! | comma-separated | – | rows of the file | – |

mod bookmarks;
mod captions;
mod columns;
mod comma_separated;
mod headings;
mod lines;
mod links;
mod markdown;
mod numbering;

pub(crate) use markdown::{ImageReference, image_references};

use std::panic::{AssertUnwindSafe, catch_unwind};

use folio_resources::{CELLS_PER_PAGE, ELEMENT_TEXT_CHARS, HEADINGS_MAX, Heading, PageArea, PageStructure};
use folio_storage::NewPage;

use crate::sniff::{Route, route};
use crate::worker::found::{Bookmark, Found};

/// The form of a text, which determines the method for its structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// Words with positions.
    Positioned,
    /// Markdown of a file whose images the child process lists.
    Office,
    Markdown,
    Plain,
    CommaSeparated,
}

impl TextForm {
    pub(crate) fn of(media_type: &str) -> Self {
        match (route(media_type), media_type) {
            (Route::Pdf | Route::Image | Route::Tiff, _) => Self::Positioned,
            (Route::Office, _) => Self::Office,
            (_, "text/markdown") => Self::Markdown,
            (_, "text/csv") => Self::CommaSeparated,
            _ => Self::Plain,
        }
    }
}

/// Sets the structure of the pages of a text. `found`: the findings of the child process for each page.
pub(crate) fn derive(form: TextForm, pages: &mut [NewPage], found: Vec<Found>) {
    // A defect of a parser must not affect other documents.
    let structures = catch_unwind(AssertUnwindSafe(|| structures(form, pages, found))).unwrap_or_else(|_| {
        tracing::warn!("the structure of a text could not be derived");
        Vec::new()
    });
    for (page, structure) in pages.iter_mut().zip(structures) {
        page.structure = structure.bound();
    }
}

fn structures(form: TextForm, pages: &[NewPage], mut found: Vec<Found>) -> Vec<PageStructure> {
    found.resize_with(pages.len(), Found::default);
    let bookmarks: Vec<(usize, Bookmark)> = found
        .iter_mut()
        .enumerate()
        .flat_map(|(page, found)| {
            std::mem::take(&mut found.bookmarks).into_iter().map(move |bookmark| (page, bookmark))
        })
        .collect();
    let mut structures: Vec<PageStructure> = pages
        .iter()
        .zip(found)
        .map(|(page, found)| {
            let mut structure = match form {
                TextForm::Positioned => {
                    PageStructure { tables: columns::with_positions(page), ..PageStructure::default() }
                }
                TextForm::Office | TextForm::Markdown => markdown::structure(&page.text),
                TextForm::Plain => {
                    PageStructure { tables: columns::without_positions(page), ..PageStructure::default() }
                }
                TextForm::CommaSeparated => PageStructure {
                    tables: comma_separated::table(&page.text).into_iter().collect(),
                    ..PageStructure::default()
                },
            };
            structure.links.extend(links::with_anchors(page, found.links));
            structure.images.extend(captions::of_images(page, found.images));
            structure
        })
        .collect();
    let derived = match form {
        TextForm::Positioned if bookmarks.len() >= bookmarks::LEAST => bookmarks::headings(pages, &bookmarks),
        TextForm::Positioned | TextForm::Plain => headings::headings(form, pages),
        TextForm::Office | TextForm::Markdown | TextForm::CommaSeparated => Vec::new(),
    };
    for (page, heading) in derived {
        if let Some(structure) = structures.get_mut(page) {
            structure.headings.push(heading);
        }
    }
    let mut left = HEADINGS_MAX;
    for structure in &mut structures {
        structure.headings.truncate(left);
        left -= structure.headings.len();
    }
    structures
}

/// A heading with the position of its page in the list of pages.
type Positioned = (usize, Heading);

/// Returns a text in one line, at most [`ELEMENT_TEXT_CHARS`] characters.
fn in_one_line<'t>(words: impl IntoIterator<Item = &'t str>) -> String {
    let mut text = String::new();
    let mut left = ELEMENT_TEXT_CHARS;
    for word in words {
        if left == 0 {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
            left -= 1;
        }
        let end = word.char_indices().nth(left).map_or(word.len(), |(end, _)| end);
        text.push_str(word.get(..end).unwrap_or_default());
        left = left.saturating_sub(word.chars().count());
    }
    text.truncate(text.trim_end().len());
    text
}

/// Returns rows of equal length within the bound of a page, and true if rows were dropped. Missing cells are empty.
fn grid(mut rows: Vec<Vec<String>>) -> (Vec<Vec<String>>, bool) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let fitting = CELLS_PER_PAGE.checked_div(columns).unwrap_or_default();
    let is_cut = fitting < rows.len();
    rows.truncate(fitting);
    rows.iter_mut().for_each(|row| row.resize(columns, String::new()));
    (rows, is_cut)
}

/// Returns the smallest area that contains the boxes of these words. None: a word has no box.
fn area_of(page: &NewPage, words: std::ops::Range<usize>) -> Option<PageArea> {
    let boxes = words.map(|word| page.boxes.fractions(word)).collect::<Option<Vec<_>>>()?;
    Some(PageArea::of_fractions(boxes.into_iter().reduce(folio_resources::BoundingBox::union)?))
}

fn word_number(word: usize) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use folio_resources::{BoundingBox, LinkTarget, WordBoxes};
    use proptest::prelude::*;

    use super::*;
    use crate::worker::found::{FoundImage, FoundLink};

    #[test]
    fn a_form_follows_the_media_type() {
        for (media_type, form) in [
            ("application/pdf", TextForm::Positioned),
            ("image/tiff", TextForm::Positioned),
            ("text/html", TextForm::Office),
            ("text/markdown", TextForm::Markdown),
            ("text/csv", TextForm::CommaSeparated),
            ("text/plain", TextForm::Plain),
        ] {
            assert_eq!(TextForm::of(media_type), form, "{media_type}");
        }
    }

    #[test]
    fn a_document_has_a_bounded_number_of_headings() {
        let mut pages: Vec<_> = (1..=3).map(|number| NewPage::of_text(number, "# a\n\n".repeat(1_500))).collect();
        derive(TextForm::Markdown, &mut pages, Vec::new());
        let counts: Vec<_> = pages.iter().map(|page| page.structure.headings.len()).collect();
        assert_eq!(counts, [1_500, 500, 0]);
    }

    #[test]
    fn rows_have_equal_lengths_within_the_bound() {
        let row = |cells: usize| vec!["c".to_owned(); cells];
        assert_eq!(
            grid(vec![row(1), row(3)]),
            (vec![vec!["c".to_owned(), String::new(), String::new()], row(3)], false)
        );
        let (rows, is_cut) = grid(std::iter::repeat_n(row(1), 100).chain([row(CELLS_PER_PAGE / 2)]).collect());
        assert_eq!((rows.len(), is_cut), (2, true));
        assert_eq!(grid(vec![row(CELLS_PER_PAGE + 1)]), (Vec::new(), true));
        assert_eq!(grid(Vec::new()), (Vec::new(), false));
    }

    proptest! {
        #[test]
        fn any_text_has_a_structure_within_its_page(
            texts in proptest::collection::vec("([a-zA-Z0-9#|\\[\\]().:;,=-]{1,8}[ \n]{1,3}){0,40}", 1..4),
            areas in proptest::collection::vec((0.0..1.0, 0.0..1.0), 0..40),
            form in 0..5_usize,
        ) {
            let forms = [TextForm::Positioned, TextForm::Office, TextForm::Markdown, TextForm::Plain, TextForm::CommaSeparated];
            let form = forms[form];
            let area = |(x, y): &(f64, f64)| BoundingBox { left: *x, top: *y, right: x + 0.1, bottom: y + 0.02 };
            let mut pages: Vec<_> = (1..)
                .zip(&texts)
                .map(|(number, text)| NewPage {
                    boxes: WordBoxes::new(1.0, 1.0, areas.iter().map(area)),
                    ..NewPage::of_text(number, text.clone())
                })
                .collect();
            let found = areas.iter().map(|at| {
                let area = PageArea::of_fractions(area(at));
                Found {
                    links: vec![FoundLink { area, target: LinkTarget::Page(1) }],
                    images: vec![FoundImage { number: 1, width: 9, height: 9, area: Some(area), description: String::new() }],
                    bookmarks: vec![Bookmark { level: 3, title: "a b".to_owned(), top: Some(0.5) }],
                }
            });
            derive(form, &mut pages, found.collect());
            for page in &pages {
                let words = page.text.split_whitespace().count();
                let structure = &page.structure;
                prop_assert!(structure.headings.iter().all(|heading| (heading.word as usize) < words.max(1)));
                prop_assert!(structure.headings.is_sorted_by_key(|heading| heading.word));
                for table in &structure.tables {
                    prop_assert!(table.word as usize + table.words as usize <= words);
                    prop_assert!(table.rows.iter().all(|row| row.len() == table.rows[0].len()));
                }
            }
        }
    }
}
