//! Units of a section: sentences and tables, and parts of those that exceed the window.

use folio_types::Result;

use crate::input::{Block, Span, TableRow};
use crate::split;
use crate::tokens::TokenCounter;

/// A text that a chunk contains whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub text: String,
    /// The characters of the pages, in order. A verbatim text has one span.
    pub spans: Vec<Span>,
    /// True: the text is that of its span.
    pub is_verbatim: bool,
    /// Index of the block in the section. Units of one paragraph are joined without a separator.
    pub block: usize,
    pub tokens: u64,
    /// True: the unit repeats the end of the chunk before.
    pub is_overlap: bool,
}

/// Returns the units of the blocks of a section, each at most `limit` tokens. Blocks without visible text have none.
pub(crate) fn units(blocks: &[Block], limit: u64, counter: &dyn TokenCounter) -> Result<Vec<Unit>> {
    let mut units = Vec::new();
    for (block, content) in blocks.iter().enumerate() {
        match content {
            Block::Paragraph { text, .. } if text.trim().is_empty() => {}
            Block::Paragraph { page, start, text } => {
                paragraph(block, *page, *start, text, limit, counter, &mut units)?;
            }
            Block::Table { rows } => table(block, rows, limit, counter, &mut units)?,
        }
    }
    Ok(units)
}

fn chars(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

fn paragraph(
    block: usize,
    page: u32,
    start: u32,
    text: &str,
    limit: u64,
    counter: &dyn TokenCounter,
    units: &mut Vec<Unit>,
) -> Result<()> {
    let mut start = start;
    for part in split::split(text, limit, counter)? {
        let text = text.get(part.range).unwrap_or_default();
        let end = start.saturating_add(chars(text));
        let spans = vec![Span { page, start, end }];
        units.push(Unit {
            text: text.to_owned(),
            spans,
            is_verbatim: true,
            block,
            tokens: part.tokens,
            is_overlap: false,
        });
        start = end;
    }
    Ok(())
}

/// Returns the cells of a row in one line.
fn line(row: &TableRow) -> String {
    let cells = row.cells.iter().map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
    cells.collect::<Vec<_>>().join(" | ")
}

/// Adds the spans of a row. Rows of a table with one span for all have it once.
fn add_span(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.page == span.page && span.start <= last.end && last.start <= span.start => {
            last.end = last.end.max(span.end);
        }
        _ => spans.push(span),
    }
}

/// Adds a table as one unit if it fits. Else adds units of consecutive rows below the header, and splits a row that
/// exceeds the limit. A header of more than a half of the limit is not repeated.
fn table(block: usize, rows: &[TableRow], limit: u64, counter: &dyn TokenCounter, units: &mut Vec<Unit>) -> Result<()> {
    let rows = rows.iter().map(|row| (line(row), row.span));
    let rows: Vec<(String, Span)> = rows.filter(|(text, _)| text.contains(|c: char| c != '|' && c != ' ')).collect();
    let unit = |text: String, spans: Vec<Span>, tokens: u64| Unit {
        text,
        spans,
        is_verbatim: false,
        block,
        tokens,
        is_overlap: false,
    };
    // The tokens of each row with its line break. A group of rows is counted exactly before it is added.
    let mut counts = Vec::with_capacity(rows.len());
    for (text, _) in &rows {
        counts.push(counter.count(text)?.saturating_add(1));
    }
    let header = rows.first().map(|(text, _)| text.as_str()).unwrap_or_default();
    let header_tokens = counts.first().copied().unwrap_or_default();
    let repeats_header = header_tokens.saturating_mul(2) <= limit;
    let mut first = 0usize;
    while let Some((row, span)) = rows.get(first) {
        let with_header = repeats_header && first > 0;
        let mut sum = if with_header { header_tokens } else { 0 };
        let most = limit.saturating_add(1);
        let fits = |tokens: &&u64| {
            sum = sum.saturating_add(**tokens);
            sum <= most
        };
        let mut count = counts.iter().skip(first).take_while(fits).count();
        let (text, tokens) = loop {
            let lines = rows.iter().skip(first).take(count).map(|(text, _)| text.as_str());
            let lines: Vec<_> = with_header.then_some(header).into_iter().chain(lines).collect();
            let text = lines.join("\n");
            let tokens = if count == 0 { 0 } else { counter.count(&text)? };
            if tokens <= limit {
                break (text, tokens);
            }
            count -= 1;
        };
        if count == 0 {
            // The row exceeds the limit, alone or with the header.
            for part in split::split(row, limit, counter)? {
                units.push(unit(row.get(part.range).unwrap_or_default().to_owned(), vec![*span], part.tokens));
            }
            first += 1;
            continue;
        }
        let mut spans = Vec::new();
        rows.iter().skip(first).take(count).for_each(|(_, span)| add_span(&mut spans, *span));
        first += count;
        units.push(unit(text, spans, tokens));
    }
    Ok(())
}
