//! The context of a chunk: lines before its text, within a budget of tokens.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::Result;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::input::{Context, DictionaryTerm, ImageSummary, Section};
use crate::split;
use crate::tokens::TokenCounter;

/// Maximum dictionary entries of a chunk.
const ENTRIES_MAX: usize = 8;
/// Maximum images of a chunk.
pub(crate) const IMAGES_MAX: usize = 8;
/// Tokens below which a line is omitted instead of shortened.
const LINE_TOKENS_MIN: u64 = 8;

/// The entries of a dictionary by the words of their terms.
pub(crate) struct Dictionary<'a> {
    /// Numbers of words of the terms that begin with a word.
    lengths: BTreeMap<String, BTreeSet<usize>>,
    /// Entries with their positions.
    by_words: BTreeMap<Vec<String>, Vec<(usize, &'a DictionaryTerm)>>,
}

/// Returns the form of a word in which terms are compared: words in upper case remain, so that `IT` is not `it`.
fn comparable(word: &str) -> String {
    let is_upper_case = word.chars().any(char::is_alphabetic) && !word.chars().any(char::is_lowercase);
    if is_upper_case { word.to_owned() } else { word.to_lowercase() }
}

impl<'a> Dictionary<'a> {
    pub(crate) fn new(terms: &'a [DictionaryTerm]) -> Self {
        let mut dictionary = Self { lengths: BTreeMap::new(), by_words: BTreeMap::new() };
        for (position, term) in terms.iter().enumerate() {
            let words: Vec<String> = term.term.unicode_words().map(comparable).collect();
            if let Some(first) = words.first() {
                dictionary.lengths.entry(first.clone()).or_default().insert(words.len());
                dictionary.by_words.entry(words).or_default().push((position, term));
            }
        }
        dictionary
    }

    /// Returns the entries whose terms are in a text, in the order of the dictionary, at most eight.
    fn entries_in(&self, text: &str) -> Vec<&'a DictionaryTerm> {
        if self.by_words.is_empty() {
            return Vec::new();
        }
        let words: Vec<String> = text.unicode_words().map(comparable).collect();
        let mut found = BTreeMap::new();
        for (at, word) in words.iter().enumerate() {
            for length in self.lengths.get(word).into_iter().flatten() {
                let term = words.get(at..at.saturating_add(*length));
                found.extend(term.and_then(|term| self.by_words.get(term)).into_iter().flatten().copied());
            }
        }
        found.into_values().take(ENTRIES_MAX).collect()
    }
}

/// Returns a text in one line, so that a summary cannot imitate another line of the context.
pub(crate) fn in_one_line(text: &str) -> String {
    let visible = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    visible.collect::<Vec<_>>().join(" ")
}

/// The context of a chunk, and whether the budget shortened or omitted a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Padding {
    pub text: String,
    pub tokens: u64,
    pub is_cut: bool,
}

/// Returns the lines of context: the titles of the section, the dictionary entries in the text, the summaries of the
/// images, of the section and of the document. Each line receives an equal part of the remaining budget.
pub(crate) fn padding(
    text: &str,
    section: &Section,
    images: &[&ImageSummary],
    context: &Context,
    dictionary: &Dictionary<'_>,
    budget: u64,
    counter: &dyn TokenCounter,
) -> Result<Padding> {
    if budget == 0 {
        return Ok(Padding::default());
    }
    let mut lines = Vec::new();
    let mut add = |name: &str, value: &str| {
        let value = in_one_line(value);
        if !value.is_empty() {
            lines.push(format!("{name}: {value}"));
        }
    };
    add("Section", &section.title_path.join(" > "));
    for DictionaryTerm { term, expansion, disambiguation } in dictionary.entries_in(text) {
        match disambiguation {
            Some(disambiguation) => add("Dictionary", &format!("{term} = {expansion} ({disambiguation})")),
            None => add("Dictionary", &format!("{term} = {expansion}")),
        }
    }
    for image in images {
        add("Image Summary", &image.summary);
    }
    add("Section Summary", context.section_summaries.get(&section.id).map(String::as_str).unwrap_or_default());
    add("Document Summary", context.document_summary.as_deref().unwrap_or_default());
    fitted(lines, budget, counter)
}

fn fitted(lines: Vec<String>, budget: u64, counter: &dyn TokenCounter) -> Result<Padding> {
    let mut padding = Padding::default();
    let mut kept: Vec<String> = Vec::new();
    let count = lines.len();
    for (at, line) in lines.into_iter().enumerate() {
        let waiting = u64::try_from(count.saturating_sub(at)).unwrap_or(1).max(1);
        // One token for the line break.
        let share = budget.saturating_sub(padding.tokens).saturating_sub(1) / waiting;
        let shortened = split::shortened(&line, share, counter)?;
        padding.is_cut |= shortened != line;
        if shortened.is_empty() || (shortened != line && share < LINE_TOKENS_MIN) {
            padding.is_cut = true;
            continue;
        }
        kept.push(shortened);
        padding.tokens = counter.count(&kept.join("\n"))?;
        if padding.tokens > budget {
            kept.pop();
            padding.tokens = counter.count(&kept.join("\n"))?;
            padding.is_cut = true;
        }
    }
    padding.text = kept.join("\n");
    Ok(padding)
}
