//! Terms whose meaning a text states, as in `ABC (Alpha Beta Co)` or `Alpha Beta Co (ABC)`: proposals for a dictionary.

use std::collections::HashMap;

use crate::dictionary_text::{expansion, words};

/// Number of letters of a term.
// proto: none "internal; bounds a result of a search"
const TERM_CHARS: std::ops::RangeInclusive<usize> = 2..=8;
/// Maximum number of different terms with their meanings that are collected in a text.
// proto: none "internal; bounds the memory of a search"
const COLLECTED_MAX: usize = 10_000;

/// A term with a meaning that a text states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedExpansion {
    pub term: String,
    /// The meaning in one line.
    pub expansion: String,
    /// Number of statements.
    pub count: usize,
}

/// Returns the terms in upper case whose meaning a text states, the most frequent first, at most `max`. A term with several
/// meanings is returned with each of them. The time is linear in the length of the text.
pub fn stated_expansions(text: &str, max: usize) -> Vec<StatedExpansion> {
    let mut found: HashMap<(&str, String), usize> = HashMap::new();
    for (start, word) in words(text) {
        let is_term = TERM_CHARS.contains(&word.chars().count()) && word.chars().all(char::is_uppercase);
        if is_term && let Some(phrase) = expansion(text, start, start + word.len()) {
            let meaning = (word, phrase.split_whitespace().collect::<Vec<_>>().join(" "));
            if found.len() < COLLECTED_MAX || found.contains_key(&meaning) {
                *found.entry(meaning).or_default() += 1;
            }
        }
    }
    let mut stated: Vec<StatedExpansion> = found
        .into_iter()
        .map(|((term, expansion), count)| StatedExpansion { term: term.to_owned(), expansion, count })
        .collect();
    stated.sort_by(|one, other| {
        (other.count, &one.term, &one.expansion).cmp(&(one.count, &other.term, &other.expansion))
    });
    stated.truncate(max);
    stated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(text: &str) -> Vec<(String, String, usize)> {
        stated_expansions(text, 10).into_iter().map(|found| (found.term, found.expansion, found.count)).collect()
    }

    fn row(term: &str, expansion: &str, count: usize) -> (String, String, usize) {
        (term.to_owned(), expansion.to_owned(), count)
    }

    #[test]
    fn the_meaning_of_a_term_is_in_parentheses_or_in_front_of_them() {
        for (text, expected) in [
            ("MY (Malaysia) grew.", vec![row("MY", "Malaysia", 1)]),
            ("We sell in Malaysia (MY).", vec![row("MY", "Malaysia", 1)]),
            ("Although Alpha Beta Co (ABC) grew.", vec![row("ABC", "Alpha Beta Co", 1)]),
            ("EBIT (earnings before\ninterest and tax)", vec![row("EBIT", "earnings before interest and tax", 1)]),
            (
                "MY (Malaysia), MY (Model Year), MY (Malaysia)",
                vec![row("MY", "Malaysia", 2), row("MY", "Model Year", 1)],
            ),
            ("MY (see page 3) and ABC", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(stated(text), expected, "{text:?}");
        }
        assert_eq!(stated_expansions("MY (Malaysia), SG (Singapore)", 1).len(), 1);
    }
}
