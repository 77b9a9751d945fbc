//! Joins the units of a section to texts up to the window.

use std::collections::VecDeque;

use folio_types::Result;

use crate::chunk::Segment;
use crate::input::Span;
use crate::options::ChunkOptions;
use crate::split;
use crate::tokens::TokenCounter;
use crate::units::Unit;

/// Maximum exact counts that fill the window of one text, after the sum of its units has reached the window.
const EXACT_COUNTS_MAX: u32 = 8;

/// The text of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub text: String,
    pub segments: Vec<Segment>,
    pub tokens: u64,
    /// Characters at the start that repeat the text before.
    pub overlap_chars: u32,
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Joins units. White space at the end is removed.
fn compose<'a>(units: impl Iterator<Item = &'a Unit>) -> (String, Vec<Segment>, u32) {
    let mut text = String::new();
    let (mut chars, mut overlap_chars) = (0u32, 0u32);
    let mut segments: Vec<Segment> = Vec::new();
    let mut previous: Option<&Unit> = None;
    for unit in units {
        let continues = previous.is_some_and(|previous| {
            previous.block == unit.block && previous.is_verbatim && unit.is_verbatim && end(previous) == start(unit)
        });
        if previous.is_some() && !continues {
            text.push('\n');
            chars = chars.saturating_add(1);
        }
        if continues && let Some((last, span)) = segments.last_mut().zip(unit.spans.first()) {
            last.span.end = span.end;
        } else {
            let is_verbatim = unit.is_verbatim;
            segments.extend(unit.spans.iter().map(|span| Segment { text_start: chars, span: *span, is_verbatim }));
        }
        text.push_str(&unit.text);
        chars = chars.saturating_add(count(unit.text.chars().count()));
        if unit.is_overlap {
            overlap_chars = chars;
        }
        previous = Some(unit);
    }
    let trimmed = text.trim_end().len();
    text.truncate(trimmed);
    (text, segments, overlap_chars)
}

fn start(unit: &Unit) -> Option<(u32, u32)> {
    unit.spans.first().map(|span| (span.page, span.start))
}

fn end(unit: &Unit) -> Option<(u32, u32)> {
    unit.spans.last().map(|span| (span.page, span.end))
}

/// Joins the units of one section to texts of at most the window. Only a text of a single unit can exceed it, and only
/// if the unit is one character.
pub(crate) fn pack(units: Vec<Unit>, options: &ChunkOptions, counter: &dyn TokenCounter) -> Result<Vec<Packed>> {
    let window = u64::from(options.window);
    let mut queue = VecDeque::from(units);
    let mut draft: VecDeque<Unit> = VecDeque::new();
    let mut packed = Vec::new();
    while !queue.is_empty() {
        fill(&mut draft, &mut queue, window, counter)?;
        let chunk = fit(&mut draft, &mut queue, window, counter)?;
        draft = if queue.is_empty() { VecDeque::new() } else { overlap(&draft, u64::from(options.overlap), counter)? };
        // White space after the overlap is no text of its own.
        let repeated = usize::try_from(chunk.overlap_chars).unwrap_or(usize::MAX);
        if chunk.text.chars().skip(repeated).any(|c| !c.is_whitespace()) {
            packed.push(chunk);
        }
    }
    Ok(packed)
}

/// Moves units from the queue to the draft, at least one, up to the window.
fn fill(draft: &mut VecDeque<Unit>, queue: &mut VecDeque<Unit>, window: u64, counter: &dyn TokenCounter) -> Result<()> {
    let mut tokens: u64 = draft.iter().map(|unit| unit.tokens).sum();
    let mut exact_counts = 0;
    let mut is_first = true;
    while let Some(next) = queue.front() {
        let sum = tokens.saturating_add(next.tokens);
        if !is_first && sum > window {
            // The tokens of a joined text are often fewer than those of its parts.
            exact_counts += 1;
            let (text, _, _) = compose(draft.iter().chain([next]));
            tokens = counter.count(&text)?;
            if tokens > window || exact_counts > EXACT_COUNTS_MAX {
                return Ok(());
            }
        } else {
            tokens = sum;
        }
        draft.extend(queue.pop_front());
        is_first = false;
    }
    Ok(())
}

/// Returns the text of the draft, after units that exceed the window are removed: first the overlap, then units at the
/// end, which return to the queue.
fn fit(
    draft: &mut VecDeque<Unit>,
    queue: &mut VecDeque<Unit>,
    window: u64,
    counter: &dyn TokenCounter,
) -> Result<Packed> {
    loop {
        let (text, segments, overlap_chars) = compose(draft.iter());
        let tokens = counter.count(&text)?;
        if tokens <= window || draft.len() <= 1 {
            return Ok(Packed { text, segments, tokens, overlap_chars });
        }
        if draft.front().is_some_and(|unit| unit.is_overlap) {
            draft.pop_front();
        } else if let Some(last) = draft.pop_back() {
            queue.push_front(last);
        }
    }
}

/// Returns the last sentences of a chunk with together at most `limit` tokens. If the last sentence exceeds the limit:
/// its last words. A chunk that ends with a table has no overlap.
fn overlap(draft: &VecDeque<Unit>, limit: u64, counter: &dyn TokenCounter) -> Result<VecDeque<Unit>> {
    let mut repeated = VecDeque::new();
    let mut rest = limit;
    for unit in draft.iter().rev().take_while(|unit| unit.is_verbatim && !unit.is_overlap) {
        if unit.tokens <= rest {
            rest = rest.saturating_sub(unit.tokens);
            repeated.push_front(Unit { is_overlap: true, ..unit.clone() });
            continue;
        }
        if repeated.is_empty()
            && let Some(at) = split::longest_end(&unit.text, rest, counter)?
            && let Some((skipped, text)) = unit.text.split_at_checked(at)
        {
            let skipped = count(skipped.chars().count());
            let spans = unit.spans.iter().map(|span| Span { start: span.start.saturating_add(skipped), ..*span });
            let (text, spans, tokens) = (text.to_owned(), spans.collect(), counter.count(text)?);
            repeated.push_front(Unit { text, spans, tokens, is_overlap: true, ..unit.clone() });
        }
        break;
    }
    Ok(repeated)
}
