//! Quotes of a model, and the search for them in the text of a page. Pure.
//!
//! The search ignores white space, and compares characters in their compatibility composition (Unicode NFKC).

use std::ops::Range;

use folio_resources::{QUOTE_CHARS, words};
use unicode_normalization::UnicodeNormalization as _;

use super::model_evidence::QUOTE_CHARS_MIN;
use super::page_index::Words;

/// Maximum number of positions of a page at which a quote is examined. On a page of one repeated character, a quote may occur at
/// every character.
const POSITIONS_MAX: usize = 1_000;
/// Maximum length of a quote, in bytes.
const QUOTE_BYTES: usize = 4 * QUOTE_CHARS;

/// A text that the model copied from the document.
pub(super) struct Quote {
    text: String,
    condensed: String,
}

impl Quote {
    pub(super) fn new(text: &str) -> Self {
        let condensed = text.split_whitespace().map(condensed).collect();
        Self { text: text.to_owned(), condensed }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Returns true if a text contains a quote of 3 to [`QUOTE_CHARS`] characters.
pub fn contains_quote(text: &str, quote: &str) -> bool {
    let chars = quote.trim().chars().take(QUOTE_CHARS + 1).count();
    (QUOTE_CHARS_MIN..=QUOTE_CHARS).contains(&chars)
        && CondensedPage::new(text).find(&Quote::new(quote)).next().is_some()
}

/// Returns a word in compatibility composition. White space that the composition adds is removed.
fn condensed(word: &str) -> String {
    word.nfkc().filter(|c| !c.is_whitespace()).collect()
}

/// An occurrence of a quote on a page.
pub(super) struct Occurrence<'a> {
    /// The words that the quote contains completely or in part.
    pub(super) words: Words,
    /// The words that the quote contains completely.
    pub(super) whole_words: Range<usize>,
    /// The words as they are in the text.
    pub(super) text: &'a str,
}

/// The text of a page without white space.
pub(super) struct CondensedPage<'a> {
    text: &'a str,
    condensed: String,
    /// The start of each word in `condensed`, and its bytes in `text`.
    words: Vec<(usize, Range<usize>)>,
}

impl<'a> CondensedPage<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut page = Self { text, condensed: String::with_capacity(text.len()), words: Vec::new() };
        for (range, word) in words(text) {
            page.words.push((page.condensed.len(), range));
            page.condensed.push_str(&condensed(word));
        }
        page
    }

    /// Returns the occurrences of a quote, in order, at the first [`POSITIONS_MAX`] positions of the page. Omits occurrences that
    /// have more than [`QUOTE_CHARS`] characters with their white space.
    pub(super) fn find(&self, quote: &Quote) -> impl Iterator<Item = Occurrence<'a>> {
        let quote = quote.condensed.as_str();
        // None: the quote is empty and would occur everywhere.
        let first_char_bytes = quote.chars().next().map(char::len_utf8);
        let mut from = 0;
        // Occurrences may overlap, because one that begins within a word may hide the right one.
        let starts = std::iter::from_fn(move || {
            let step = first_char_bytes?;
            let start = from + self.condensed.get(from..)?.find(quote)?;
            from = start + step;
            Some(start)
        });
        let occurrences = starts.take(POSITIONS_MAX).filter_map(move |start| {
            let end = start + quote.len();
            let (first, last) = (self.word_at(start)?, self.word_at(end.checked_sub(1)?)?);
            let ends_within = self.words.get(last + 1).map_or(self.condensed.len(), |(start, _)| *start) > end;
            let starts_within = self.words.get(first)?.0 < start;
            Some(Occurrence {
                words: (first, last),
                whole_words: first + usize::from(starts_within)..last + usize::from(!ends_within),
                text: self.text_of(first, last)?,
            })
        });
        // The bytes are compared first, because a word may be as long as a page.
        occurrences.filter(|found| found.text.len() <= QUOTE_BYTES && found.text.chars().count() <= QUOTE_CHARS)
    }

    /// Returns the word at a byte of the condensed text.
    fn word_at(&self, byte: usize) -> Option<usize> {
        self.words.partition_point(|(start, _)| *start <= byte).checked_sub(1)
    }

    fn text_of(&self, first: usize, last: usize) -> Option<&'a str> {
        let (first, last) = (self.words.get(first)?, self.words.get(last)?);
        self.text.get(first.1.start..last.1.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, quote: &str) -> Vec<Words> {
        CondensedPage::new(page).find(&Quote::new(quote)).map(|occurrence| occurrence.words).collect()
    }

    #[test]
    fn a_quote_is_found_with_other_white_space_and_compatible_characters() {
        for (page, quote, expected) in [
            ("Total:  957,00 €", "Total: 957,00 €", vec![(0, 2)]),
            ("Total:\n957,00\u{a0}€", "Total: 957,00 €", vec![(0, 2)]),
            ("T o t a l 957", "Total 957", vec![(0, 5)]),
            ("ﬁnal ﬁgure №7", "final figure No7", vec![(0, 2)]),
            ("Cafe\u{301} 5", "Café 5", vec![(0, 1)]),
            ("5 m² 5 m2", "5 m2", vec![(0, 1), (2, 3)]),
            ("Total1: 957", "al1: 9", vec![(0, 1)]),
            ("11 1 11", "1 11", vec![(0, 1), (0, 2), (1, 2)]),
            ("Total", "Sum", vec![]),
            ("Total", "total", vec![]),
            ("Total", " ", vec![]),
            ("", "Total", vec![]),
        ] {
            assert_eq!(found(page, quote), expected, "{page:?} {quote:?}");
        }
    }

    #[test]
    fn a_text_contains_quotes_that_are_neither_short_nor_long() {
        let text = "Total:  957,00 €";
        for (quote, is_contained) in
            [("Total: 957,00 €", true), ("Tot", true), ("To", false), ("  T  ", false), ("", false), ("Sum", false)]
        {
            assert_eq!(contains_quote(text, quote), is_contained, "{quote:?}");
        }
        let long = "ab ".repeat(QUOTE_CHARS);
        assert!(contains_quote(&long, &long[..QUOTE_CHARS - 3]) && !contains_quote(&long, &long[..QUOTE_CHARS + 4]));
    }

    #[test]
    fn words_that_the_quote_contains_in_part_are_not_whole() {
        for (quote, words, whole_words) in [
            ("Total: 957", (0, 1), 0..1),
            ("Total: 957,00", (0, 1), 0..2),
            ("otal: 957,00", (0, 1), 1..2),
            ("tal: 95", (0, 1), 1..1),
            ("Total", (0, 0), 0..0),
            ("957,00 €", (1, 2), 1..3),
        ] {
            let page = CondensedPage::new("Total: 957,00 €");
            let found: Vec<_> = page.find(&Quote::new(quote)).map(|found| (found.words, found.whole_words)).collect();
            assert_eq!(found, [(words, whole_words)], "{quote}");
        }
    }

    #[test]
    fn an_occurrence_that_is_longer_than_a_quote_is_left_out() {
        let page = |blanks: usize| format!("a{}b", " ".repeat(blanks));
        assert_eq!(found(&page(QUOTE_CHARS - 2), "a b"), [(0, 1)]);
        assert_eq!(found(&page(QUOTE_CHARS - 1), "a b"), []);
    }

    #[test]
    fn the_positions_of_a_quote_on_a_page_are_bounded() {
        let page = "aaaa ".repeat(POSITIONS_MAX);
        let condensed = CondensedPage::new(&page);
        assert_eq!(condensed.find(&Quote::new("aaa")).count(), POSITIONS_MAX);
        let word = "a".repeat(2_000_000);
        assert_eq!(found(&word, &"a".repeat(QUOTE_CHARS)), [], "a long word ends the search soon");
    }
}
