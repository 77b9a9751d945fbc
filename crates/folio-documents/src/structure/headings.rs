//! Headings of a text without bookmarks: from the sizes of the characters, from numbers, and from underlines of plain text.

use std::collections::{HashMap, HashSet};

use folio_resources::Heading;
use folio_storage::NewPage;

use super::lines::{Line, is_image, lines};
use super::numbering::{is_entry_of_contents, number_of, sequence};
use super::{Positioned, TextForm, in_one_line, word_number};

/// Minimum size of the characters of a heading, relative to those of the text.
const LARGE: f64 = 1.15;
/// The same on a recognized image, whose sizes are inexact.
const LARGE_ON_IMAGE: f64 = 1.35;
/// Maximum length of a line of a heading in characters.
const CHARS_MAX: usize = 150;
/// Maximum number of words of a line of a heading.
const WORDS_MAX: usize = 25;
/// Number of levels that sizes distinguish.
const SIZES_MAX: usize = 6;
/// Minimum number of lines of a text for each heading that is found by its size. Otherwise the sizes do not mark headings.
const SHARE_MAX: usize = 2;
/// Number of pages with the same line from which the line may be a running header.
const REPEATED: usize = 3;

/// A line with its page.
struct PageLine<'t> {
    /// The position of the page in the list of pages.
    page: usize,
    line: Line<'t>,
    /// The size of the characters, relative to those of the text, in tenths. None: unknown, or not larger.
    large: Option<u32>,
}

/// Returns the headings in the order of the text.
pub(super) fn headings(form: TextForm, pages: &[NewPage]) -> Vec<Positioned> {
    let mut all = page_lines(pages);
    mark_large(pages, &mut all);
    let numbered: Vec<(usize, Vec<u32>)> =
        all.iter().enumerate().filter_map(|(at, line)| Some((at, number_of(line.line.text)?))).collect();
    let in_sequence: HashSet<usize> = sequence(&numbered).into_iter().collect();
    let depths: HashMap<usize, usize> =
        numbered.iter().filter(|(at, _)| in_sequence.contains(at)).map(|(at, number)| (*at, number.len())).collect();
    let levels = levels(&all);
    let mut found: Vec<(Positioned, Option<u32>)> = Vec::new();
    // The line after the last one of the last heading.
    let mut next = usize::MAX;
    for (at, PageLine { page, line, large }) in all.iter().enumerate() {
        let underline = (form == TextForm::Plain).then(|| underline(line, all.get(at + 1), *page)).flatten();
        let depth = depths.get(&at).copied();
        let level = match (large.and_then(|size| levels.get(&size)), depth, underline) {
            (Some(level), ..) => *level,
            // Numbered headings in the size of the text follow those that are larger.
            (None, Some(depth), _) => levels.len() + depth,
            (None, None, Some(level)) => level,
            (None, None, None) => continue,
        };
        // A title in several lines.
        if let Some(((_, last), size)) = found.last_mut().filter(|((last, _), _)| at == next && last == page)
            && large.is_some()
            && size == large
            && depth.is_none()
            && last.title.chars().count() + line.text.chars().count() < CHARS_MAX
        {
            last.title = in_one_line(last.title.split_whitespace().chain(line.text.split_whitespace()));
            next = at + 1;
            continue;
        }
        let heading = Heading {
            level: u8::try_from(level).unwrap_or(u8::MAX),
            title: in_one_line(line.text.split_whitespace()),
            word: word_number(line.words.start),
        };
        found.push(((*page, heading), *large));
        next = at + 1;
    }
    found.into_iter().map(|(heading, _)| heading).collect()
}

fn page_lines(pages: &[NewPage]) -> Vec<PageLine<'_>> {
    let of_page = |(page, new)| lines(new).into_iter().map(move |line| PageLine { page, line, large: None });
    pages.iter().enumerate().flat_map(of_page).collect()
}

/// Marks the lines whose characters are larger than those of the text.
fn mark_large(pages: &[NewPage], all: &mut [PageLine<'_>]) {
    let sizes: Vec<Option<f64>> =
        all.iter().map(|line| pages.get(line.page).and_then(|page| line.line.size(page))).collect();
    let Some(text) = median(all.iter().zip(&sizes).filter_map(|(line, size)| Some(((*size)?, line.line.text.len()))))
    else {
        return;
    };
    let repeated = repeated(all, pages.len());
    let (mut marked, mut large) = (0, Vec::with_capacity(all.len()));
    for (line, size) in all.iter().zip(sizes) {
        let least = if pages.get(line.page).is_some_and(is_image) { LARGE_ON_IMAGE } else { LARGE };
        let ratio = size.map(|size| size / text).filter(|ratio| *ratio >= least && is_title(line.line.text));
        let ratio = ratio.filter(|_| !repeated.contains(&key(line.line.text)));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the conversion saturates")]
        let tenths = ratio.map(|ratio| (ratio * 10.0).round() as u32);
        marked += usize::from(tenths.is_some());
        large.push(tenths);
    }
    if marked.saturating_mul(SHARE_MAX) <= all.len() {
        all.iter_mut().zip(large).for_each(|(line, large)| line.large = large);
    }
}

/// Returns the median of sizes with weights. None: there are none.
fn median(sizes: impl Iterator<Item = (f64, usize)>) -> Option<f64> {
    let mut sizes: Vec<(f64, usize)> = sizes.collect();
    sizes.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let total: usize = sizes.iter().map(|(_, weight)| weight).sum();
    let mut seen = 0;
    sizes
        .into_iter()
        .find(|(_, weight)| {
            seen += weight;
            seen * 2 >= total
        })
        .map(|(size, _)| size)
}

/// Returns true if a line may be a heading by its text.
fn is_title(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).take(2).count();
    letters == 2
        && text.chars().count() <= CHARS_MAX
        && text.split_whitespace().count() <= WORDS_MAX
        && !is_entry_of_contents(text)
}

/// Returns the text of a line without digits: a running header differs in the number of the page.
fn key(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && !c.is_whitespace()).collect()
}

/// Returns the keys of lines that are on a third of the pages.
fn repeated(all: &[PageLine<'_>], pages: usize) -> HashSet<String> {
    let mut on_pages: HashMap<String, (usize, usize)> = HashMap::new();
    for line in all.iter().filter(|line| line.line.text.len() <= CHARS_MAX) {
        let (last, count) = on_pages.entry(key(line.line.text)).or_insert((usize::MAX, 0));
        if *last != line.page {
            (*last, *count) = (line.page, *count + 1);
        }
    }
    let is_repeated = |count: usize| count >= REPEATED && count * 3 >= pages;
    on_pages.into_iter().filter(|(_, (_, count))| is_repeated(*count)).map(|(key, _)| key).collect()
}

/// Returns the level of each size of a heading: 1 for the largest.
fn levels(all: &[PageLine<'_>]) -> HashMap<u32, usize> {
    let mut sizes: Vec<u32> = all.iter().filter_map(|line| line.large).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    sizes.into_iter().zip(1..).map(|(size, level)| (size, level.min(SIZES_MAX))).collect()
}

/// Returns the level of a heading of plain text with a line of `=` or `-` below it.
fn underline(line: &Line<'_>, next: Option<&PageLine<'_>>, page: usize) -> Option<usize> {
    let below = next.filter(|next| next.page == page && !next.line.is_separated)?.line.text;
    let is_line = |of: char| below.len() >= 3 && below.chars().all(|c| c == of);
    let level = if is_line('=') {
        1
    } else if is_line('-') {
        2
    } else {
        return None;
    };
    (line.is_separated && is_title(line.text)).then_some(level)
}

#[cfg(test)]
mod tests {
    use folio_resources::{BoundingBox, WordBoxes};

    use super::*;

    /// A page of lines with the sizes of their characters.
    fn page(number: u32, lines: &[(&str, f64)]) -> NewPage {
        let (mut boxes, mut top) = (Vec::new(), 40.0);
        for (text, size) in lines {
            for (at, _) in text.split_whitespace().enumerate() {
                let left = 50.0 + 40.0 * f64::from(u32::try_from(at).unwrap());
                boxes.push(BoundingBox { left, top, right: left + 35.0, bottom: top + size });
            }
            top += size * 1.3;
        }
        let text: Vec<&str> = lines.iter().map(|(text, _)| *text).collect();
        NewPage { boxes: WordBoxes::new(595.0, 842.0, boxes), ..NewPage::of_text(number, text.join("\n")) }
    }

    fn shown(form: TextForm, pages: &[NewPage]) -> Vec<(usize, u8, String, u32)> {
        let found = headings(form, pages);
        found.into_iter().map(|(page, Heading { level, title, word })| (page, level, title, word)).collect()
    }

    const TEXT: (&str, f64) = ("The parties agree on the terms that follow in this document", 11.5);

    #[test]
    fn larger_lines_are_headings_by_their_size() {
        let pages = [
            page(
                1,
                &[
                    ("Running header 1", 14.0),
                    ("Master", 24.0),
                    ("Agreement", 24.0),
                    TEXT,
                    TEXT,
                    ("Scope", 16.0),
                    TEXT,
                    TEXT,
                    TEXT,
                ],
            ),
            page(
                2,
                &[("Running header 2", 14.0), TEXT, TEXT, ("Fees . . . . . . 3", 16.0), ("Fees", 16.0), TEXT, TEXT],
            ),
            page(3, &[("Running header 3", 14.0), TEXT, TEXT, TEXT, ("17.00", 24.0)]),
        ];
        let expected =
            [(0, 1, "Master Agreement".to_owned(), 3), (0, 2, "Scope".to_owned(), 27), (1, 2, "Fees".to_owned(), 33)];
        assert_eq!(shown(TextForm::Positioned, &pages), expected);
    }

    #[test]
    fn numbered_lines_in_the_size_of_the_text_follow_larger_headings() {
        let pages = [page(
            1,
            &[
                ("Agreement", 20.0),
                TEXT,
                TEXT,
                ("1 Scope", 11.5),
                TEXT,
                TEXT,
                ("1.1 Services", 11.5),
                TEXT,
                TEXT,
                ("2 Fees", 11.5),
                TEXT,
            ],
        )];
        let found: Vec<_> =
            shown(TextForm::Positioned, &pages).into_iter().map(|(_, level, title, _)| (level, title)).collect();
        let expected = [(1, "Agreement"), (2, "1 Scope"), (3, "1.1 Services"), (2, "2 Fees")];
        assert_eq!(found, expected.map(|(level, title)| (level, title.to_owned())));
    }

    #[test]
    fn plain_text_has_underlined_and_numbered_headings() {
        let text = "Terms\n=====\n\nSome text is here\nand here\n\nFees\n----\ntext\n\nno title\n";
        let found = shown(TextForm::Plain, &[NewPage::of_text(1, text)]);
        assert_eq!(found, [(0, 1, "Terms".to_owned(), 0), (0, 2, "Fees".to_owned(), 8)]);
    }

    #[test]
    fn a_text_in_one_size_has_no_headings() {
        assert_eq!(shown(TextForm::Positioned, &[page(1, &[TEXT; 9])]), []);
        assert_eq!(shown(TextForm::Positioned, &[NewPage::of_text(1, "")]), []);
    }
}
