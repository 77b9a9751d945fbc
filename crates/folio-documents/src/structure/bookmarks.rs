//! Headings from the bookmarks of a PDF: the position of each bookmark in the text of its page.

use folio_resources::{Heading, words};
use folio_storage::NewPage;

use super::lines::{Line, lines};
use super::{Positioned, in_one_line, word_number};
use crate::worker::found::Bookmark;

/// Minimum number of bookmarks that count as the headings of a document. A single one is often the title only.
pub(super) const LEAST: usize = 2;
/// Maximum distance of a line above the position of its bookmark, in fractions of the page.
const TOLERANCE: f64 = 0.01;

/// Returns the headings in the order of the text. `bookmarks`: the page in the list of pages, and the bookmarks of the page.
pub(super) fn headings(pages: &[NewPage], bookmarks: &[(usize, Bookmark)]) -> Vec<Positioned> {
    let mut found: Vec<Positioned> = Vec::new();
    for (at, page) in pages.iter().enumerate() {
        let mut of_page = bookmarks.iter().filter(|(page, _)| *page == at).map(|(_, bookmark)| bookmark).peekable();
        if of_page.peek().is_none() {
            continue;
        }
        let (lines, texts) = (lines(page), words(&page.text).map(|(_, word)| letters(word)).collect::<Vec<_>>());
        // Bookmarks of a page are in the order of the text, except in damaged files.
        let mut from = 0;
        for Bookmark { level, title, top } in of_page {
            let word = word_of(page, &lines, &texts, (title, *top), from);
            from = word;
            let title = in_one_line(title.split_whitespace());
            if !title.is_empty() {
                found.push((at, Heading { level: *level, title, word: word_number(word) }));
            }
        }
    }
    found
}

/// Returns the first word of the line at which a section begins: the line with the title, otherwise the first line at the position,
/// otherwise the first line from `from` on.
fn word_of(
    page: &NewPage,
    lines: &[Line<'_>],
    texts: &[String],
    (title, top): (&str, Option<f32>),
    from: usize,
) -> usize {
    let title: Vec<String> = title.split_whitespace().map(letters).filter(|word| !word.is_empty()).collect();
    let begins = |start: usize| texts.get(start..).is_some_and(|rest| starts_with(rest, &title));
    let start_of = |word: usize| {
        let line = lines.iter().find(|line| line.words.contains(&word));
        line.map_or(word, |line| line.words.start)
    };
    if !title.is_empty()
        && let Some(word) = (from..texts.len()).find(|start| begins(*start))
    {
        return start_of(word).max(from);
    }
    let is_below = |line: &&Line<'_>| {
        let bottom = line.area(page).map(|area| area.bottom);
        top.zip(bottom).is_some_and(|(top, bottom)| bottom >= f64::from(top) + TOLERANCE)
    };
    let by_position = lines.iter().filter(|line| line.words.start >= from).find(is_below).map(|line| line.words.start);
    by_position.unwrap_or(from)
}

/// Returns true if the words begin with those of a title. Words without letters and digits are skipped.
fn starts_with(texts: &[String], title: &[String]) -> bool {
    let mut texts = texts.iter();
    // The first word must match, so that no word before the title belongs to the section.
    texts.next() == title.first() && title.iter().skip(1).all(|word| texts.find(|text| !text.is_empty()) == Some(word))
}

fn letters(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use folio_resources::{BoundingBox, WordBoxes};

    use super::*;

    fn bookmark(title: &str, top: Option<f32>) -> Bookmark {
        Bookmark { level: 1, title: title.to_owned(), top }
    }

    #[test]
    fn a_bookmark_begins_at_its_title_or_at_its_position() {
        let area = |row: u32| BoundingBox {
            left: 0.1,
            top: f64::from(row) * 0.1,
            right: 0.2,
            bottom: f64::from(row) * 0.1 + 0.05,
        };
        let boxes = [1, 1, 2, 2, 2, 2, 3, 3, 4].map(area);
        let page = NewPage {
            boxes: WordBoxes::new(1.0, 1.0, boxes),
            ..NewPage::of_text(2, "1 Scope\nThe Fees – are\n2 FEES:\nend")
        };
        let pages = [NewPage::of_text(1, ""), page];
        let at = |bookmark: Bookmark| (1, bookmark);
        let found = headings(
            &pages,
            &[at(bookmark("Scope", None)), at(bookmark("2 Fees", None)), at(bookmark("Missing", Some(0.4)))],
        );
        let words: Vec<_> = found.iter().map(|(page, heading)| (*page, heading.word, heading.title.as_str())).collect();
        assert_eq!(words, [(1, 0, "Scope"), (1, 6, "2 Fees"), (1, 8, "Missing")]);
        let empty = headings(&pages, &[(0, bookmark("Scope", Some(0.5))), (0, bookmark(" ", None))]);
        assert_eq!(empty, [(0, Heading { level: 1, title: "Scope".to_owned(), word: 0 })]);
    }
}
