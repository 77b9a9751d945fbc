//! Formats Markdown for a terminal, without access to it.

use anstyle::Style;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::layout::{self, Line, Span, columns};
use crate::terminal::{BOLD, CODE, DIM};

/// Minimum number of columns of a table cell.
const CELL_COLUMNS_MIN: usize = 3;
/// Number of columns of a horizontal rule.
const RULE_COLUMNS: usize = 40;
/// Separates the cells of a row.
const CELL_GAP: &str = " │ ";

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Returns the length of the complete blocks at the start of a text that still grows: everything before its last block.
pub(crate) fn complete_bytes(text: &str) -> usize {
    let (mut depth, mut last) = (0_usize, 0);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if depth == 0 {
            last = range.start;
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    last
}

/// Formats Markdown in lines of at most `width` columns.
pub(crate) fn render(text: &str, width: usize) -> Vec<Line> {
    let mut renderer = Renderer { width, ..Renderer::default() };
    for event in Parser::new_ext(text, options()) {
        renderer.event(event);
    }
    renderer.flush();
    renderer.lines
}

/// The prefix that a list item or a quote adds to its lines.
struct Prefix {
    first: String,
    rest: String,
    is_used: bool,
}

/// The rows of a table; the first one is the head.
#[derive(Default)]
struct Table {
    rows: Vec<Vec<Vec<Span>>>,
}

#[derive(Default)]
struct Renderer {
    width: usize,
    lines: Vec<Line>,
    prefixes: Vec<Prefix>,
    /// The text of the current block.
    inline: Vec<Span>,
    /// The styles of the open elements, each with the effects of the outer ones.
    styles: Vec<Style>,
    /// The open lists, each with the number of the next item. None: the items have no numbers.
    lists: Vec<Option<u64>>,
    /// The targets of the open links.
    links: Vec<String>,
    code: Option<String>,
    table: Option<Table>,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push(self.style(), &text),
            },
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => self.push(CODE, &text),
            Event::FootnoteReference(text) => self.push(DIM, &text),
            Event::SoftBreak => self.push(self.style(), " "),
            Event::HardBreak => self.push(self.style(), "\n"),
            Event::Rule => {
                self.gap();
                self.push(DIM, &"─".repeat(RULE_COLUMNS.min(self.width)));
                self.flush();
            }
            Event::TaskListMarker(is_done) => self.push(self.style(), if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.gap(),
            Tag::Heading { .. } => {
                self.gap();
                self.styles.push(BOLD);
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.gap();
                self.prefix("│ ".to_owned(), "│ ".to_owned());
            }
            Tag::List(number) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(number);
            }
            Tag::Item => {
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(columns(&marker));
                self.prefix(marker, rest);
            }
            Tag::CodeBlock(_) => {
                self.flush();
                self.gap();
                self.code = Some(String::new());
            }
            Tag::Table(_) => {
                self.flush();
                self.gap();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.styles.push(self.style().italic()),
            Tag::Strong => self.styles.push(self.style().bold()),
            Tag::Strikethrough => self.styles.push(self.style().strikethrough()),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(dest_url.into_string()),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                // An item without text shows its marker.
                if self.prefixes.last().is_some_and(|prefix| !prefix.is_used) {
                    let (first, _) = self.take_prefixes();
                    self.lines.push(vec![Span::new(Style::new(), first)]);
                }
                self.prefixes.pop();
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                let target = self.links.pop().unwrap_or_default();
                let is_text = self.inline.last().is_some_and(|last| last.text.ends_with(&target));
                if !target.is_empty() && !is_text {
                    self.push(DIM, &format!(" ({target})"));
                }
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, style: Style, text: &str) {
        self.inline.push(Span::new(style, text));
    }

    fn prefix(&mut self, first: String, rest: String) {
        self.flush();
        self.prefixes.push(Prefix { first, rest, is_used: false });
    }

    /// Returns the prefixes of the first line and of the other lines of the next block.
    fn take_prefixes(&mut self) -> (String, String) {
        let (mut first, mut rest) = (String::new(), String::new());
        for prefix in &mut self.prefixes {
            first.push_str(if prefix.is_used { &prefix.rest } else { &prefix.first });
            rest.push_str(&prefix.rest);
            prefix.is_used = true;
        }
        (first, rest)
    }

    /// Separates the next block by an empty line, unless it is the first one of an item or a quote.
    fn gap(&mut self) {
        if !self.lines.is_empty() && self.prefixes.last().is_none_or(|prefix| prefix.is_used) {
            let (_, rest) = self.take_prefixes();
            let rest = rest.trim_end();
            self.lines.push(if rest.is_empty() { Line::new() } else { vec![Span::new(Style::new(), rest)] });
        }
    }

    /// Ends the current block.
    fn flush(&mut self) {
        let inline = std::mem::take(&mut self.inline);
        if inline.iter().all(|span| span.text.trim().is_empty()) {
            return;
        }
        let (first, rest) = self.take_prefixes();
        // The first span has the style of the prefixes.
        let inline: Vec<Span> = std::iter::once(Span::new(Style::new(), "")).chain(inline).collect();
        self.lines.extend(layout::wrap(&inline, &first, &rest, self.width));
    }

    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default().replace('\t', "    ");
        for line in code.lines() {
            let (first, rest) = self.take_prefixes();
            self.lines.extend(layout::cut(CODE, line, &format!("{first}  "), &format!("{rest}    "), self.width));
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let (first, rest) = self.take_prefixes();
        let width = self.width.saturating_sub(columns(&first));
        for (at, mut line) in table.lines(width).into_iter().enumerate() {
            let prefix = if at == 0 { &first } else { &rest };
            if !prefix.is_empty() {
                line.insert(0, Span::new(Style::new(), prefix.as_str()));
            }
            self.lines.push(line);
        }
    }
}

impl Table {
    /// Formats the rows. The widest columns are narrowed until the table fits or every column has its minimum.
    fn lines(self, width: usize) -> Vec<Line> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let size = |cell: &Vec<Span>| cell.iter().map(|span| columns(&span.text)).sum::<usize>();
        let mut sizes: Vec<usize> = (0..count)
            .map(|at| self.rows.iter().filter_map(|row| row.get(at)).map(size).max().unwrap_or(0))
            .map(|size| size.clamp(CELL_COLUMNS_MIN, width.max(CELL_COLUMNS_MIN)))
            .collect();
        let gaps = count.saturating_sub(1) * columns(CELL_GAP);
        if count.saturating_mul(CELL_COLUMNS_MIN) + gaps > width {
            sizes.fill(CELL_COLUMNS_MIN);
        }
        while sizes.iter().sum::<usize>() + gaps > width {
            match sizes.iter_mut().max() {
                Some(widest) if *widest > CELL_COLUMNS_MIN => *widest -= 1,
                _ => break,
            }
        }
        let mut lines = Vec::new();
        for (at, row) in self.rows.into_iter().enumerate() {
            let is_head = at == 0;
            lines.extend(row_lines(row, &sizes, is_head));
            if is_head {
                let rule: Vec<String> = sizes.iter().map(|size| "─".repeat(*size)).collect();
                lines.push(vec![Span::new(DIM, rule.join("─┼─"))]);
            }
        }
        lines
    }
}

/// Formats a row. A cell that is wider than its column is broken into several lines.
fn row_lines(row: Vec<Vec<Span>>, sizes: &[usize], is_head: bool) -> Vec<Line> {
    let mut cells = row.into_iter();
    let cells: Vec<Vec<Line>> = sizes
        .iter()
        .map(|size| {
            let mut cell = cells.next().unwrap_or_default();
            if is_head {
                cell.iter_mut().for_each(|span| span.style = span.style.bold());
            }
            layout::wrap(&cell, "", "", *size)
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let mut line = Line::new();
            for (index, (cell, size)) in cells.iter().zip(sizes).enumerate() {
                if index > 0 {
                    line.push(Span::new(DIM, CELL_GAP));
                }
                let part = cell.get(at).cloned().unwrap_or_default();
                let used: usize = part.iter().map(|span| columns(&span.text)).sum();
                line.extend(part);
                if index + 1 < cells.len() {
                    line.push(Span::new(Style::new(), " ".repeat(size.saturating_sub(used))));
                }
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::text_of;

    fn lines(text: &str, width: usize) -> Vec<String> {
        render(text, width).iter().map(|line| text_of(line)).collect()
    }

    #[test]
    fn blocks_are_separated_and_text_is_wrapped() {
        let text =
            "# Total\n\nThe **total** is `42 EUR`, see\n[the page](https://a.example).\n\n> quoted text\n\n---\n";
        let rule = "─".repeat(24);
        let expected = [
            "Total",
            "",
            "The total is 42 EUR, see",
            "the page",
            "(https://a.example).",
            "",
            "│ quoted text",
            "",
            rule.as_str(),
        ];
        assert_eq!(lines(text, 24), expected);
    }

    #[test]
    fn the_marks_of_inline_elements_become_styles() {
        let styled = render("a **b** *c* `d` ~~e~~", 80);
        let styles: Vec<(&str, Style)> = styled[0]
            .iter()
            .filter(|span| !span.text.trim().is_empty())
            .map(|span| (span.text.trim(), span.style))
            .collect();
        let plain = Style::new();
        let expected = [("a", plain), ("b", BOLD), ("c", plain.italic()), ("d", CODE), ("e", plain.strikethrough())];
        assert_eq!(styles, expected);
    }

    #[test]
    fn lists_are_nested_and_numbered() {
        let text = "Items:\n\n1. first with a long text\n2. second\n   - inner\n   - [x] done\n";
        let expected = ["Items:", "", "1. first with a", "   long text", "2. second", "   • inner", "   • [x] done"];
        assert_eq!(lines(text, 18), expected);
    }

    #[test]
    fn code_keeps_its_spaces_and_is_cut() {
        assert_eq!(lines("```json\n{\n  \"a\": 1\n}\n```", 40), ["  {", "    \"a\": 1", "  }"]);
        assert_eq!(lines("    abcdefgh", 7), ["  abcde", "    fgh"]);
    }

    #[test]
    fn a_table_fits_into_the_width() {
        let text = "| Item | Price |\n|---|---|\n| A very long description | 10 |\n| B | 7 |\n";
        assert_eq!(
            lines(text, 40),
            [
                "Item                    │ Price",
                "────────────────────────┼──────",
                "A very long description │ 10",
                "B                       │ 7",
            ]
        );
        assert_eq!(
            lines(text, 20),
            [
                "Item         │ Price",
                "─────────────┼──────",
                "A very long  │ 10",
                "description  │ ",
                "B            │ 7"
            ]
        );
        for width in 0..30 {
            assert!(lines(text, width).len() >= 4, "{width}");
        }
    }

    #[test]
    fn the_last_block_of_a_growing_text_is_incomplete() {
        assert_eq!(complete_bytes(""), 0);
        assert_eq!(complete_bytes("one"), 0);
        assert_eq!(complete_bytes("one\n\ntwo"), 5);
        assert_eq!(complete_bytes("one\n\n- a\n\n- b"), 5);
        assert_eq!(complete_bytes("| a |\n|---|\n| b |\n\nend"), 19);
        assert_eq!(complete_bytes("```\none\n\ntwo"), 0);
    }
}
