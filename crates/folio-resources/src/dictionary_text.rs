//! Dictionary terms in a text: tokens whose meaning the text does not state, and the entries that a text uses.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;
use folio_types::{Error, Result};
use unicode_normalization::UnicodeNormalization as _;

use crate::{DictionaryEntry, Provenance, term_key};

/// Number of letters of an ambiguous token.
// proto: none "internal; bounds a result of a search"
const TOKEN_CHARS: std::ops::RangeInclusive<usize> = 2..=3;
/// Maximum number of characters of the words before or in parentheses that may expand a token.
const EXPANSION_WINDOW: usize = 120;
/// Maximum number of excerpts of each token.
// proto: none "internal; bounds a result of a search"
const CONTEXTS_MAX: usize = 3;
/// Number of characters of an excerpt before the token, and after it.
// proto: none "internal; bounds a result of a search"
const CONTEXT_CHARS: usize = 60;
/// Maximum number of different tokens that are collected in a text.
// proto: none "internal; bounds the memory of a search"
const COLLECTED_MAX: usize = 10_000;
/// Minimum number of letters of a word that shows that a line in upper case is a heading.
// proto: none "internal; bounds a result of a search"
const HEADING_WORD_CHARS: usize = 4;

/// A short word in upper case, such as an abbreviation, whose meaning a text does not state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmbiguousToken {
    pub token: String,
    /// Number of occurrences.
    pub count: usize,
    /// Excerpts of the text around the first occurrences, in one line each.
    pub contexts: Vec<String>,
}

/// Returns the ambiguous tokens of a text, at most `max`, the most frequent first: words of two or three letters in upper
/// case. Not contained are tokens that the text expands, as in `ABC (Alpha Beta Co)` or `Alpha Beta Co (ABC)`, words of
/// headings in upper case, and parts of identifiers such as `INV-7`. The time is linear in the length of the text.
pub fn ambiguous_tokens(text: &str, max: usize) -> Vec<AmbiguousToken> {
    let mut found: HashMap<&str, Occurrences> = HashMap::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        if !is_heading(line) {
            for (at, word) in words(line) {
                let (start, end) = (line_start + at, line_start + at + word.len());
                if !is_token(word) || is_part_of_identifier(text, start, end) {
                    continue;
                }
                let is_full = found.len() >= COLLECTED_MAX && !found.contains_key(word);
                if !is_full {
                    found.entry(word).or_default().add(text, start, end);
                }
            }
        }
        line_start += line.len();
    }
    let mut tokens: Vec<(usize, AmbiguousToken)> = found
        .into_iter()
        .filter(|(_, occurrences)| !occurrences.is_expanded)
        .map(|(token, Occurrences { first, count, contexts, .. })| {
            (first, AmbiguousToken { token: token.to_owned(), count, contexts })
        })
        .collect();
    tokens.sort_by_key(|(first, token)| (std::cmp::Reverse(token.count), *first));
    tokens.into_iter().take(max).map(|(_, token)| token).collect()
}

/// The occurrences of a token.
#[derive(Default)]
struct Occurrences {
    /// Position of the first one.
    first: usize,
    count: usize,
    contexts: Vec<String>,
    is_expanded: bool,
}

impl Occurrences {
    fn add(&mut self, text: &str, start: usize, end: usize) {
        if self.count == 0 {
            self.first = start;
        }
        self.count += 1;
        if self.contexts.len() < CONTEXTS_MAX {
            self.contexts.push(excerpt(text, start, end));
        }
        self.is_expanded = self.is_expanded || expansion(text, start, end).is_some();
    }
}

/// Returns the words of a text with their positions: the longest sequences of letters, marks and digits.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        // Both pointers are in the same text.
        (word.as_ptr() as usize - text.as_ptr() as usize, word)
    })
}

fn is_token(word: &str) -> bool {
    TOKEN_CHARS.contains(&word.chars().count()) && word.chars().all(char::is_uppercase)
}

/// Returns true if every letter of a line is in upper case and a word is too long for a token.
fn is_heading(line: &str) -> bool {
    let has_long_word =
        words(line).any(|(_, word)| word.chars().count() >= HEADING_WORD_CHARS && word.chars().all(char::is_uppercase));
    has_long_word && !line.chars().any(char::is_lowercase)
}

/// Returns true if a hyphen or a similar sign connects the word with a word that contains a digit.
fn is_part_of_identifier(text: &str, start: usize, end: usize) -> bool {
    const CONNECTORS: [char; 6] = ['-', '_', '/', '.', '#', ':'];
    let (before, after) = (before(text, start), after(text, end));
    let has_digit = |chars: &mut dyn Iterator<Item = char>| {
        let mut chars = chars.peekable();
        let is_connected = chars.next_if(|c| CONNECTORS.contains(c)).is_some();
        is_connected && chars.take(EXPANSION_WINDOW).take_while(|c| c.is_alphanumeric()).any(char::is_numeric)
    };
    has_digit(&mut before.chars().rev()) || has_digit(&mut after.chars())
}

fn before(text: &str, end: usize) -> &str {
    text.get(..end).unwrap_or_default()
}

fn after(text: &str, start: usize) -> &str {
    text.get(start..).unwrap_or_default()
}

/// Returns the meaning of the token at `start..end` if the text states it in parentheses after the token, or in front of the
/// parentheses around it.
pub(crate) fn expansion(text: &str, start: usize, end: usize) -> Option<&str> {
    let (token, before, after) = (text.get(start..end).unwrap_or_default(), before(text, start), after(text, end));
    let next = after.trim_start();
    if let Some(inside) = next.strip_prefix('(') {
        let inside = first_chars(inside, EXPANSION_WINDOW);
        return inside.split_once(')').map(|(phrase, _)| phrase.trim()).filter(|phrase| expands(phrase, token));
    }
    let is_alone = next.starts_with(')');
    let phrase = before.trim_end().strip_suffix('(').filter(|_| is_alone)?;
    let phrase = last_chars(phrase, EXPANSION_WINDOW);
    // The meaning begins with the last possible word in the same sentence.
    let sentence = phrase.rsplit(['.', ';', ':', '(', ')', '\n']).next().unwrap_or_default();
    let begins = |(at, word): &(usize, &str)| {
        word.chars().next().is_some_and(char::is_uppercase) && expands(self::after(sentence, *at), token)
    };
    words(sentence).filter(begins).last().map(|(at, _)| self::after(sentence, at).trim())
}

/// Returns true if a phrase is longer than the token, begins with its first letter, has its other letters in order, and is
/// no word in upper case.
pub fn expands(phrase: &str, token: &str) -> bool {
    let phrase = phrase.trim();
    let is_phrase = phrase.contains(char::is_whitespace) || phrase.contains(char::is_lowercase);
    if phrase.chars().count() <= token.chars().count() || !is_phrase {
        return false;
    }
    let fold = |c: char| c.to_lowercase();
    let mut letters = phrase.chars().flat_map(fold);
    let mut wanted = token.chars().flat_map(fold);
    letters.next() == wanted.next() && wanted.all(|wanted| letters.any(|letter| letter == wanted))
}

fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| before(text, end))
}

fn last_chars(text: &str, count: usize) -> &str {
    let Some(skipped) = count.checked_sub(1) else { return "" };
    text.char_indices().rev().nth(skipped).map_or(text, |(start, _)| after(text, start))
}

/// Returns the text around a token in one line. Cut words and an ellipsis show that the text continues.
fn excerpt(text: &str, start: usize, end: usize) -> String {
    let (all_before, all_after) = (before(text, start), after(text, end));
    let (before, after) = (last_chars(all_before, CONTEXT_CHARS), first_chars(all_after, CONTEXT_CHARS));
    let joined = format!("{before}{}{after}", text.get(start..end).unwrap_or_default());
    let line = joined.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = |is_cut| if is_cut { "…" } else { "" };
    format!("{}{line}{}", cut(before.len() < all_before.len()), cut(after.len() < all_after.len()))
}

/// The terms of a dictionary, prepared for searches in texts.
#[derive(Debug)]
pub struct TermSearch {
    entries: Vec<DictionaryEntry>,
    /// Terms in upper case, such as `MY`.
    exact: Terms,
    folded: Terms,
}

impl TermSearch {
    /// Prepares the search. The time is linear in the size of the terms: for a large dictionary not on the thread of other tasks.
    ///
    /// # Errors
    /// `INTERNAL` if the terms are too large for a search.
    pub fn new(entries: Vec<DictionaryEntry>) -> Result<Self> {
        let [exact, folded] = {
            let (exact, folded): (Vec<_>, Vec<_>) =
                entries.iter().enumerate().partition(|(_, entry)| is_upper_case(&entry.term));
            [Terms::new(&exact, |entry| spelling(&entry.term))?, Terms::new(&folded, |entry| entry.key.clone())?]
        };
        Ok(Self { entries, exact, folded })
    }

    /// Returns the entries whose term occurs in a text as a whole word, at most `max`: those with most occurrences first, and
    /// among equals those that a person confirmed, an agent read, and a model inferred. A term in upper case, such as `MY`,
    /// occurs in upper case only; other terms without regard to case. The time is linear in the size of the text.
    pub fn relevant(&self, text: &str, max: usize) -> Vec<&DictionaryEntry> {
        let counts = [self.exact.counts(|| spelling(text)), self.folded.counts(|| term_key(text))];
        let counted = counts.into_iter().flatten().filter(|(count, _)| *count > 0);
        let mut found: Vec<(usize, &DictionaryEntry)> =
            counted.filter_map(|(count, position)| Some((count, self.entries.get(position)?))).collect();
        let rank = |entry: &DictionaryEntry| match entry.provenance {
            Provenance::Person => 0,
            Provenance::Agent => 1,
            Provenance::Inferred { .. } => 2,
        };
        found.sort_by_key(|(count, entry)| (std::cmp::Reverse(*count), rank(entry), entry.key.as_str()));
        found.into_iter().take(max).map(|(_, entry)| entry).collect()
    }
}

/// Terms of one kind.
#[derive(Debug)]
struct Terms {
    patterns: AhoCorasick,
    /// The positions of the entries, in the order of the patterns.
    positions: Vec<usize>,
}

impl Terms {
    fn new(entries: &[(usize, &DictionaryEntry)], pattern: impl Fn(&DictionaryEntry) -> String) -> Result<Self> {
        let patterns = AhoCorasick::new(entries.iter().map(|(_, entry)| pattern(entry)))
            .map_err(|error| Error::internal(format!("the terms of a dictionary cannot be searched: {error}")))?;
        Ok(Self { patterns, positions: entries.iter().map(|(position, _)| *position).collect() })
    }

    /// Returns the number of occurrences of each term in a text, with the position of its entry. `text`: in the form of the patterns.
    fn counts(&self, text: impl FnOnce() -> String) -> Vec<(usize, usize)> {
        if self.positions.is_empty() {
            return Vec::new();
        }
        let text = text();
        let mut counts = vec![0; self.positions.len()];
        for hit in self.patterns.find_overlapping_iter(&text) {
            if is_whole_word(&text, hit.start(), hit.end())
                && let Some(count) = counts.get_mut(hit.pattern().as_usize())
            {
                *count += 1;
            }
        }
        counts.into_iter().zip(self.positions.iter().copied()).collect()
    }
}

/// Returns true if no letter and no digit continues a letter or a digit at the ends of a part of a text.
fn is_whole_word(text: &str, start: usize, end: usize) -> bool {
    let continues = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(char::is_alphanumeric) && outer.is_some_and(char::is_alphanumeric)
    };
    let part = text.get(start..end).unwrap_or_default();
    !continues(part.chars().next(), before(text, start).chars().next_back())
        && !continues(part.chars().next_back(), after(text, end).chars().next())
}

fn is_upper_case(term: &str) -> bool {
    term.chars().any(char::is_uppercase) && !term.chars().any(char::is_lowercase)
}

/// Returns a text like [`term_key`], with its case.
fn spelling(text: &str) -> String {
    let composed: String = text.nfkc().collect();
    composed.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
