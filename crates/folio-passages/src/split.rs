//! Splits a text at sentences, and a sentence that exceeds a limit at words, graphemes or characters.
//!
//! The boundaries are those of UAX #29, which covers languages without spaces between words. A single line break inside
//! a paragraph ends no sentence: the text of a page has line breaks where the page has them.

use std::ops::Range;

use folio_types::Result;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::tokens::TokenCounter;

/// Characters per token of the limit from which a text exceeds the limit without a count. The tokens of the
/// vocabularies in use are shorter, except sequences of white space.
const CHARS_PER_TOKEN_MAX: usize = 64;

/// A part of a text in bytes, and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub range: Range<usize>,
    pub tokens: u64,
}

/// Replaces single line breaks by spaces. The result has the same length in bytes.
fn without_line_breaks(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut previous_breaks = false;
    let mut joined = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        let breaks = matches!(c, '\n' | '\r');
        let next_breaks = chars.peek().is_some_and(|next| matches!(next, '\n' | '\r'));
        joined.push(if breaks && !previous_breaks && !next_breaks { ' ' } else { c });
        previous_breaks = breaks;
    }
    joined
}

/// Returns the ends of the sentences, in bytes.
fn sentence_ends(text: &str) -> Vec<usize> {
    let joined = without_line_breaks(text);
    joined.split_sentence_bound_indices().map(|(at, sentence)| at.saturating_add(sentence.len())).collect()
}

/// Returns the ends of the segments of one level inside a text, in bytes.
fn ends(text: &str, level: Level) -> Vec<usize> {
    let end = |(at, part): (usize, &str)| at.saturating_add(part.len());
    match level {
        Level::Words => text.split_word_bound_indices().map(end).collect(),
        Level::Graphemes => text.grapheme_indices(true).map(end).collect(),
        Level::Characters => text.char_indices().map(|(at, c)| at.saturating_add(c.len_utf8())).collect(),
    }
}

/// The unit at which a text that exceeds the limit is split.
#[derive(Debug, Clone, Copy)]
enum Level {
    Words,
    Graphemes,
    Characters,
}

impl Level {
    fn finer(self) -> Option<Self> {
        match self {
            Self::Words => Some(Self::Graphemes),
            Self::Graphemes => Some(Self::Characters),
            Self::Characters => None,
        }
    }
}

/// Returns the tokens of a text if they do not exceed the limit.
fn fitting(text: &str, limit: u64, counter: &dyn TokenCounter) -> Result<Option<u64>> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_mul(CHARS_PER_TOKEN_MAX);
    if text.chars().nth(most).is_some() {
        return Ok(None);
    }
    Ok(Some(counter.count(text)?).filter(|tokens| *tokens <= limit))
}

/// Splits a text into sentences, each at most `limit` tokens. The parts cover the text without gaps. A single character
/// is never split, whatever its tokens.
pub(crate) fn split(text: &str, limit: u64, counter: &dyn TokenCounter) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut start = 0;
    for end in sentence_ends(text) {
        split_range(text, start..end, limit, counter, Level::Words, &mut parts)?;
        start = end;
    }
    Ok(parts)
}

fn split_range(
    text: &str,
    range: Range<usize>,
    limit: u64,
    counter: &dyn TokenCounter,
    level: Level,
    parts: &mut Vec<Part>,
) -> Result<()> {
    let Some(slice) = text.get(range.clone()).filter(|slice| !slice.is_empty()) else { return Ok(()) };
    if let Some(tokens) = fitting(slice, limit, counter)? {
        parts.push(Part { range, tokens });
        return Ok(());
    }
    let bounds = ends(slice, level);
    let mut first = 0;
    let mut start = 0;
    while let Some(&next) = bounds.get(first) {
        if let Some((last, tokens)) = longest_fit(slice, start, &bounds, first, limit, counter)? {
            let end = bounds.get(last).copied().unwrap_or(next);
            parts.push(Part { range: range.start + start..range.start + end, tokens });
            (first, start) = (last + 1, end);
            continue;
        }
        let single = range.start + start..range.start + next;
        match level.finer() {
            Some(finer) => split_range(text, single, limit, counter, finer, parts)?,
            None => {
                let tokens = counter.count(slice.get(start..next).unwrap_or_default())?;
                parts.push(Part { range: single, tokens });
            }
        }
        (first, start) = (first + 1, next);
    }
    Ok(())
}

/// Returns the index of the last of `bounds`, from `first` on, up to which the text from `start` fits, and the tokens
/// up to it. None: not even the first segment fits. The number of counts is logarithmic.
fn longest_fit(
    text: &str,
    start: usize,
    bounds: &[usize],
    first: usize,
    limit: u64,
    counter: &dyn TokenCounter,
) -> Result<Option<(usize, u64)>> {
    let tokens_to = |index: usize| -> Result<Option<u64>> {
        let end = bounds.get(index).copied().unwrap_or(text.len());
        fitting(text.get(start..end).unwrap_or_default(), limit, counter)
    };
    let last = bounds.len().saturating_sub(1);
    let Some(tokens) = tokens_to(first)? else { return Ok(None) };
    let mut best = (first, tokens);
    let mut step = 1usize;
    let mut too_far = last + 1;
    while best.0 < last {
        let index = best.0.saturating_add(step).min(last);
        match tokens_to(index)? {
            Some(tokens) => {
                best = (index, tokens);
                step = step.saturating_mul(2);
            }
            None => {
                too_far = index;
                break;
            }
        }
    }
    while best.0 + 1 < too_far {
        let middle = best.0 + (too_far - best.0) / 2;
        match tokens_to(middle)? {
            Some(tokens) => best = (middle, tokens),
            None => too_far = middle,
        }
    }
    Ok(Some(best))
}

/// Returns the start of the longest end of a text, from a word on, that is at most `limit` tokens and not the whole
/// text. None: the last word exceeds the limit.
pub(crate) fn longest_end(text: &str, limit: u64, counter: &dyn TokenCounter) -> Result<Option<usize>> {
    let words = text.split_word_bound_indices().filter(|(at, word)| *at > 0 && !word.trim().is_empty());
    let starts: Vec<usize> = words.map(|(at, _)| at).collect();
    let (mut low, mut high) = (0, starts.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let end = starts.get(middle).and_then(|at| text.get(*at..)).unwrap_or_default();
        if fitting(end, limit, counter)?.is_some() {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(starts.get(low).copied())
}

/// Returns the start of a text that is at most `limit` tokens with `…` at its end, or the whole text if that fits.
/// Empty: not even one word fits.
pub(crate) fn shortened(text: &str, limit: u64, counter: &dyn TokenCounter) -> Result<String> {
    if fitting(text, limit, counter)?.is_some() {
        return Ok(text.to_owned());
    }
    let bounds = ends(text, Level::Words);
    let Some(text_limit) = limit.checked_sub(counter.count("…")?) else { return Ok(String::new()) };
    let Some((last, _)) = longest_fit(text, 0, &bounds, 0, text_limit, counter)? else { return Ok(String::new()) };
    // Tokens of a joined text may be more than those of its parts.
    for index in (0..=last).rev() {
        let start = bounds.get(index).and_then(|end| text.get(..*end)).unwrap_or_default().trim_end();
        let candidate = format!("{start}…");
        if !start.is_empty() && fitting(&candidate, limit, counter)?.is_some() {
            return Ok(candidate);
        }
    }
    Ok(String::new())
}
