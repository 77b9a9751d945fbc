//! Output for users: colored on a terminal, plain in a pipe. Control characters of documents and models are replaced.

use std::io::{IsTerminal as _, Write};

use anstyle::{AnsiColor, Style};

pub(crate) const BOLD: Style = Style::new().bold();
/// The style of secondary text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// The style of a success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of a failure.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// The style of a warning.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// The style of tool names.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default().bold();

/// The stream of progress and answers: stdout, or stderr if stdout is reserved for machine-readable output.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    pub(crate) is_terminal: bool,
    at_line_start: bool,
}

impl Screen {
    pub(crate) fn stdout() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { out: Box::new(anstream::AutoStream::auto(std::io::stdout())), is_terminal, at_line_start: true }
    }

    pub(crate) fn stderr() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { out: Box::new(anstream::AutoStream::auto(std::io::stderr())), is_terminal, at_line_start: true }
    }

    /// Writes text in lines of its own. Ends an unfinished line first.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        self.end_line();
        if text.is_empty() {
            let _ = writeln!(self.out);
        }
        for line in printable(text).lines() {
            // A closed pipe does not stop the program.
            let _ = writeln!(self.out, "{style}{line}{style:#}");
        }
        let _ = self.out.flush();
    }

    /// Writes text without a line end.
    pub(crate) fn write_text(&mut self, style: Style, text: &str) {
        let text = printable(text);
        if let Some(last) = text.chars().last() {
            let _ = write!(self.out, "{style}{text}{style:#}");
            let _ = self.out.flush();
            self.at_line_start = last == '\n';
        }
    }

    pub(crate) fn end_line(&mut self) {
        if !self.at_line_start {
            let _ = writeln!(self.out);
            self.at_line_start = true;
        }
    }
}

/// Writes machine-readable text to stdout, unchanged. A closed pipe is not an error; a full disk is one.
pub(crate) fn write_stdout(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Replaces control characters except line feeds and tabs, and removes carriage returns, because document text and
/// model output are untrusted.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\n' | '\t' => Some(c),
            '\r' => None,
            c if c.is_control() || is_bidi_control(c) => Some('\u{fffd}'),
            c => Some(c),
        })
        .collect()
}

/// Returns true for characters that change the direction of the following text.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\u{9b}2Jc\u{7}\r\nd\te"), "a\u{fffd}[31mb\u{fffd}2Jc\u{fffd}\nd\te");
        assert_eq!(printable("1\u{202e}2"), "1\u{fffd}2");
        assert_eq!(printable("Grüße, 世界"), "Grüße, 世界");
    }
}
