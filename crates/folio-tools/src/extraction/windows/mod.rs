//! Plans the windows of a document: parts of its text that fit into the context of a model. Pure.
//!
//! Pages are divided into segments of at most an eighth of a window. A window is a sequence of consecutive segments. A
//! window ends at the end of a page if its second half contains one, else at the end of a section, else at the end of a
//! line. The next window repeats up to an eighth of the window before it, so that one of the two windows contains the
//! whole of a value at the border. No text is left out.

use std::ops::Range;

use folio_llm::count_tokens;
use folio_resources::STRUCTURED_INVOICE_START;
use folio_storage::value::TextGap;
use folio_types::Coverage;

use super::Options;

/// Divisor of the size of a window. The quotient is the maximum size of a segment and of the overlap of two windows.
const PARTS: u64 = 8;
/// Tokens of the heading of a page, and of the separator from the text before the heading.
const HEADING_TOKENS: u64 = 10;

/// The border after a segment, from the worst to the best end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Border {
    Line,
    /// The next line is a Markdown heading or follows an empty line.
    Section,
    Page,
}

/// A part of the text of one page that no window divides.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    page: u32,
    /// Range of bytes in the text of the page.
    range: Range<usize>,
    tokens: u64,
    border: Border,
}

/// A part of the text of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) page: u32,
    /// Range of bytes in the text of the page.
    pub(super) range: Range<usize>,
}

/// The parts of a document that one model call reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Window {
    /// In the order of the document. Empty if the document has no text.
    pub(super) parts: Vec<Part>,
    /// Upper estimate of the tokens of the text.
    pub(super) tokens: u64,
}

impl Window {
    /// Returns the first and the last page. None: the window has no text.
    pub(super) fn pages(&self) -> Option<(u32, u32)> {
        Some((self.parts.first()?.page, self.parts.last()?.page))
    }
}

/// The windows of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// At least one.
    pub(super) windows: Vec<Window>,
    /// The numbers of the pages that the windows contain, and of those whose text is missing or was cut.
    pub(super) coverage: Coverage,
    /// The page with the values of an attached structured invoice. None: the document has none.
    pub(super) structured_page: Option<u32>,
}

/// Returns true if an extraction with this number of windows runs as a job.
pub(super) fn runs_as_job(windows: usize, options: &Options) -> bool {
    windows > usize::try_from(options.request_windows_max).unwrap_or(usize::MAX)
}

/// Builds a [`Plan`] from the pages of a document, which are added in order.
pub(super) struct Planner {
    /// Maximum tokens of the text of a window.
    window_tokens: u64,
    segments: Vec<Segment>,
    /// Tokens of the whole document.
    tokens: u64,
    coverage: Coverage,
    structured_page: Option<u32>,
}

impl Planner {
    pub(super) fn new(window_tokens: u64) -> Self {
        Self { window_tokens, segments: Vec::new(), tokens: 0, coverage: Coverage::default(), structured_page: None }
    }

    /// Adds a page. If the text is missing, `text` is a note that states this; the note becomes a part of a window, so that
    /// the model knows that text is missing.
    pub(super) fn add_page(&mut self, page: u32, text: &str, gap: Option<TextGap>) {
        let is_missing = gap == Some(TextGap::Missing);
        if gap.is_some() {
            self.coverage.add_incomplete(page, is_missing);
        }
        if text.trim().is_empty() {
            return;
        }
        self.coverage.pages_read += u32::from(!is_missing);
        // The page of a structured invoice follows all other pages.
        self.structured_page = text.starts_with(STRUCTURED_INVOICE_START).then_some(page);
        let tokens = count_tokens(text).saturating_add(HEADING_TOKENS);
        self.tokens = self.tokens.saturating_add(tokens);
        let max = self.window_tokens / PARTS;
        if tokens <= max {
            self.segments.push(Segment { page, range: 0..text.len(), tokens, border: Border::Page });
        } else {
            divide(page, text, max.saturating_sub(HEADING_TOKENS), &mut self.segments);
        }
    }

    /// Returns the plan, which has one window if the document fits into it.
    pub(super) fn finish(self) -> Plan {
        let ranges = match self.tokens <= self.window_tokens {
            true => std::iter::once(0..self.segments.len()).collect(),
            false => ranges(&self.segments, self.window_tokens),
        };
        let window = |range: Range<usize>| window(self.segments.get(range).unwrap_or_default());
        let windows = ranges.into_iter().map(window).collect();
        Plan { windows, coverage: self.coverage, structured_page: self.structured_page }
    }
}

/// Divides a page into segments of at most `max` tokens, without those of the heading: at sections, else between lines,
/// else within a line.
fn divide(page: u32, text: &str, max: u64, segments: &mut Vec<Segment>) {
    let (mut start, mut tokens, mut at) = (0, 0_u64, 0);
    let mut push = |range: Range<usize>, tokens: u64, border| {
        if !range.is_empty() {
            segments.push(Segment { page, range, tokens: tokens.saturating_add(HEADING_TOKENS), border });
        }
    };
    let mut is_after_blank = false;
    for line in text.split_inclusive('\n').flat_map(|line| line_parts(line, max)) {
        // If the next line begins with a number, the line break counts as a token; `count_tokens` of the line omits it.
        let line_tokens = count_tokens(line).saturating_add(1);
        let is_section = is_after_blank || line.starts_with('#');
        is_after_blank = line.trim().is_empty();
        let border = if is_section { Border::Section } else { Border::Line };
        let is_full = tokens.saturating_add(line_tokens) > max;
        if is_full || (is_section && tokens >= max / 2) {
            push(start..at, tokens, border);
            (start, tokens) = (at, 0);
        }
        tokens = tokens.saturating_add(line_tokens);
        at += line.len();
    }
    push(start..at, tokens, Border::Page);
}

/// Divides a line of `max` or more tokens, if possible after white space.
fn line_parts(line: &str, max: u64) -> Vec<&str> {
    if count_tokens(line) < max {
        return vec![line];
    }
    // No character has more than one and a half tokens.
    let chars = usize::try_from(max.saturating_sub(2) * 2 / 3).unwrap_or(usize::MAX).max(1);
    let (mut parts, mut rest) = (Vec::new(), line);
    while let Some((end, _)) = rest.char_indices().nth(chars) {
        let (head, _) = rest.split_at(end);
        let blank = head.rfind(char::is_whitespace).filter(|blank| blank * 2 > end);
        let after_blank = blank.and_then(|blank| Some(blank + head.get(blank..)?.chars().next()?.len_utf8()));
        let (part, after) = rest.split_at(after_blank.unwrap_or(end));
        parts.push(part);
        rest = after;
    }
    parts.push(rest);
    parts
}

/// Returns the range of the segments of each window. The segments of a window have at most `max` tokens, if each segment
/// has at most an eighth of `max`.
fn ranges(segments: &[Segment], max: u64) -> Vec<Range<usize>> {
    let tokens = |range: Range<usize>| segments.get(range).into_iter().flatten().map(|one| one.tokens).sum::<u64>();
    let (mut ranges, mut start) = (Vec::new(), 0);
    loop {
        let (mut end, mut size) = (start, 0_u64);
        let mut best: Option<(Border, usize)> = None;
        while let Some(segment) = segments.get(end).filter(|next| end == start || size + next.tokens <= max) {
            size = size.saturating_add(segment.tokens);
            end += 1;
            if size >= max / 2 {
                best = best.max(Some((segment.border, end)));
            }
        }
        if end >= segments.len() {
            ranges.push(start..segments.len());
            return ranges;
        }
        let cut = best.map_or(end, |(_, cut)| cut);
        ranges.push(start..cut);
        let mut next = cut;
        while next > start + 1 && tokens(next - 1..cut) <= max / PARTS {
            next -= 1;
        }
        start = next;
    }
}

/// Returns the window of consecutive segments, and joins those of the same page to one part.
fn window(segments: &[Segment]) -> Window {
    let mut window = Window::default();
    for Segment { page, range, tokens, .. } in segments {
        window.tokens = window.tokens.saturating_add(*tokens);
        match window.parts.last_mut().filter(|last| last.page == *page) {
            Some(last) => last.range.end = range.end,
            None => window.parts.push(Part { page: *page, range: range.clone() }),
        }
    }
    window
}

#[cfg(test)]
mod tests;
