//! Breaks styled text into lines of a width in terminal columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Text in one style.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Span {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }
}

/// The spans of one line, without line breaks.
pub(crate) type Line = Vec<Span>;

/// Returns the number of terminal columns of a text.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// A part of a text that is not broken, or the gap between two of them.
enum Atom {
    Word(Line),
    Space(Style),
    Break,
}

/// Breaks spans at spaces into lines of at most `width` columns. A line feed starts a new line; a longer word is cut.
/// `first` precedes the first line and `rest` each other line, in the style of the first span.
pub(crate) fn wrap(spans: &[Span], first: &str, rest: &str, width: usize) -> Vec<Line> {
    let style = spans.first().map_or(Style::new(), |span| span.style);
    let mut lines = Lines::new(style, first, rest, width);
    for atom in atoms(spans) {
        lines.add(atom);
    }
    lines.finish()
}

/// Cuts a text, whose spaces are kept, into lines of at most `width` columns.
pub(crate) fn cut(style: Style, text: &str, first: &str, rest: &str, width: usize) -> Vec<Line> {
    let mut lines = Lines::new(style, first, rest, width);
    for c in text.chars() {
        lines.push(style, c);
    }
    lines.finish()
}

fn atoms(spans: &[Span]) -> Vec<Atom> {
    let (mut atoms, mut word) = (Vec::new(), Line::new());
    for span in spans {
        for c in span.text.chars() {
            if !matches!(c, '\n' | '\t' | ' ') {
                push(&mut word, span.style, c);
                continue;
            }
            if !word.is_empty() {
                atoms.push(Atom::Word(std::mem::take(&mut word)));
            }
            atoms.push(if c == '\n' { Atom::Break } else { Atom::Space(span.style) });
        }
    }
    if !word.is_empty() {
        atoms.push(Atom::Word(word));
    }
    atoms
}

fn push(line: &mut Line, style: Style, c: char) {
    match line.last_mut() {
        Some(last) if last.style == style => last.text.push(c),
        _ => line.push(Span::new(style, c)),
    }
}

/// The lines so far, and the current line.
struct Lines<'a> {
    finished: Vec<Line>,
    line: Line,
    style: Style,
    rest: &'a str,
    width: usize,
    /// Columns of the current line.
    used: usize,
    /// If true, the current line has only its prefix.
    is_empty: bool,
    /// The space before the next word.
    space: Option<Style>,
}

impl<'a> Lines<'a> {
    fn new(style: Style, first: &str, rest: &'a str, width: usize) -> Self {
        let mut lines =
            Self { finished: Vec::new(), line: Line::new(), style, rest, width, used: 0, is_empty: true, space: None };
        lines.start(first);
        lines
    }

    fn start(&mut self, prefix: &str) {
        self.line = if prefix.is_empty() { Line::new() } else { vec![Span::new(self.style, prefix)] };
        self.used = columns(prefix);
        self.is_empty = true;
        self.space = None;
    }

    fn end_line(&mut self) {
        self.finished.push(std::mem::take(&mut self.line));
        self.start(self.rest);
    }

    fn add(&mut self, atom: Atom) {
        match atom {
            Atom::Break => self.end_line(),
            Atom::Space(style) if !self.is_empty => self.space = Some(style),
            Atom::Space(_) => {}
            Atom::Word(word) => {
                let gap = usize::from(self.space.is_some());
                let size: usize = word.iter().map(|span| columns(&span.text)).sum();
                if !self.is_empty && self.used + gap + size > self.width {
                    self.end_line();
                }
                if let Some(style) = self.space.take() {
                    self.push(style, ' ');
                }
                for span in &word {
                    for c in span.text.chars() {
                        self.push(span.style, c);
                    }
                }
            }
        }
    }

    /// Adds a character. A line has at least one character, whatever its prefix.
    fn push(&mut self, style: Style, c: char) {
        let size = c.width().unwrap_or(0);
        if !self.is_empty && self.used + size > self.width {
            self.end_line();
        }
        push(&mut self.line, style, c);
        self.used += size;
        self.is_empty = false;
    }

    fn finish(mut self) -> Vec<Line> {
        self.finished.push(self.line);
        self.finished
    }
}

/// Returns the text of a line without its styles.
#[cfg(test)]
pub(crate) fn text_of(line: &[Span]) -> String {
    line.iter().map(|span| span.text.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::BOLD;

    fn wrapped(spans: &[Span], first: &str, rest: &str, width: usize) -> Vec<String> {
        wrap(spans, first, rest, width).iter().map(|line| text_of(line)).collect()
    }

    fn plain(text: &str) -> Span {
        Span::new(Style::new(), text)
    }

    #[test]
    fn text_is_broken_at_spaces_and_a_long_word_is_cut() {
        assert_eq!(wrapped(&[plain("one two  three")], "", "", 9), ["one two", "three"]);
        assert_eq!(wrapped(&[plain("one\ntwo")], "- ", "  ", 9), ["- one", "  two"]);
        assert_eq!(wrapped(&[plain("abcdefgh ij")], "", "", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrapped(&[plain("ab")], "123456", "123456", 4), ["123456a", "123456b"]);
        assert_eq!(wrapped(&[], "", "", 5), [""]);
    }

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!(wrapped(&[plain("世界 世界")], "", "", 5), ["世界", "世界"]);
        let lines = cut(Style::new(), "世界世界", "", "", 5);
        assert_eq!(lines.iter().map(|line| text_of(line)).collect::<Vec<_>>(), ["世界", "世界"]);
    }

    #[test]
    fn a_word_of_several_styles_is_not_broken() {
        let spans = [plain("see "), Span::new(BOLD, "this"), plain(", please")];
        assert_eq!(wrapped(&spans, "", "", 8), ["see", "this,", "please"]);
        let lines = wrap(&spans, "", "", 80);
        assert_eq!(lines[0].iter().map(|span| span.style == BOLD).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn the_spaces_of_a_cut_text_are_kept() {
        let lines = cut(Style::new(), "  a  b", "|", "|", 5);
        assert_eq!(lines.iter().map(|line| text_of(line)).collect::<Vec<_>>(), ["|  a ", "| b"]);
    }
}
