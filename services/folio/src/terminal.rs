//! Output for users: colored on a terminal, plain in a pipe. Control characters of documents and models are replaced.

use std::io::{IsTerminal as _, Write};
use std::os::fd::AsFd as _;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::layout::Span;

pub(crate) const BOLD: Style = Style::new().bold();
/// The style of secondary text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// The style of a success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of a failure.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// The style of a warning.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// The style of code.
pub(crate) const CODE: Style = AnsiColor::Cyan.on_default();
/// The style of tool names.
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default().bold();

/// Maximum number of columns of formatted text: longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Minimum number of columns of formatted text.
const COLUMNS_MIN: usize = 20;

/// The stream of progress and answers: stdout, or stderr if stdout is reserved for machine-readable output.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    pub(crate) is_terminal: bool,
    /// If true, the terminal interprets control sequences, so lines can be replaced.
    has_control: bool,
    at_line_start: bool,
    /// Number of lines above the cursor that the next preview replaces.
    preview_rows: usize,
}

impl Screen {
    pub(crate) fn stdout() -> Self {
        let (out, is_terminal) = (std::io::stdout(), std::io::stdout().is_terminal());
        let has_control = is_terminal && AutoStream::choice(&out) != ColorChoice::Never;
        Self::new(Box::new(AutoStream::auto(out)), is_terminal, has_control)
    }

    pub(crate) fn stderr() -> Self {
        let (out, is_terminal) = (std::io::stderr(), std::io::stderr().is_terminal());
        let has_control = is_terminal && AutoStream::choice(&out) != ColorChoice::Never;
        Self::new(Box::new(AutoStream::auto(out)), is_terminal, has_control)
    }

    /// Returns a screen that discards its output.
    pub(crate) fn hidden() -> Self {
        Self::new(Box::new(std::io::sink()), false, false)
    }

    fn new(out: Box<dyn Write + Send>, is_terminal: bool, has_control: bool) -> Self {
        Self { out, is_terminal, has_control, at_line_start: true, preview_rows: 0 }
    }

    /// Returns the number of columns of formatted text. None: the output is not a terminal and remains unformatted.
    pub(crate) fn columns(&self) -> Option<usize> {
        let (columns, _) = self.size()?;
        // A full line would move the cursor of some terminals to the next line.
        Some(columns.saturating_sub(1).clamp(COLUMNS_MIN, COLUMNS_MAX))
    }

    /// Returns columns and rows of the terminal.
    fn size(&self) -> Option<(usize, usize)> {
        let size = self.is_terminal.then(terminal_size::terminal_size)?;
        Some(size.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0))))
    }

    /// Writes a line of several styles.
    pub(crate) fn spans(&mut self, line: &[Span]) {
        self.end_line();
        self.write_spans(line);
        let _ = self.out.flush();
    }

    fn write_spans(&mut self, line: &[Span]) {
        for Span { style, text } in line {
            // A span with a line break could imitate a line of the chat.
            let text = printable(text).replace('\n', " ");
            let _ = write!(self.out, "{style}{text}{style:#}");
        }
        let _ = writeln!(self.out);
    }

    /// Replaces the last preview by these lines. Other output does not remove a preview. If the terminal does not interpret
    /// control sequences, nothing is shown. If there are more lines than the terminal has rows, the last lines are shown.
    pub(crate) fn preview(&mut self, lines: &[Vec<Span>]) {
        let Some((_, rows)) = self.size().filter(|_| self.has_control) else { return };
        let replaced = std::mem::take(&mut self.preview_rows);
        self.end_line();
        if replaced > 0 {
            let _ = write!(self.out, "\u{1b}[{replaced}A\u{1b}[J");
        }
        let first = lines.len().saturating_sub(rows.saturating_sub(2).max(1));
        let visible = lines.get(first..).unwrap_or_default();
        visible.iter().for_each(|line| self.write_spans(line));
        self.preview_rows = visible.len();
        let _ = self.out.flush();
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
        self.preview_rows = 0;
        let text = printable(text);
        if let Some(last) = text.chars().last() {
            let _ = write!(self.out, "{style}{text}{style:#}");
            let _ = self.out.flush();
            self.at_line_start = last == '\n';
        }
    }

    pub(crate) fn end_line(&mut self) {
        self.preview_rows = 0;
        if !self.at_line_start {
            let _ = writeln!(self.out);
            self.at_line_start = true;
        }
    }
}

/// Writes machine-readable text to stdout, unchanged.
pub(crate) fn write_stdout(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Completes when the reader of stdout closes the pipe. Never completes if stdout is a file. Each call starts a thread that
/// ends with the process.
pub(crate) async fn stdout_closed() {
    let (closed, was_closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let stdout = std::io::stdout();
        // Without requested events, poll returns only errors and the end of the reader.
        let mut polled = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        let mut result = poll(&mut polled, PollTimeout::NONE);
        while result == Err(Errno::EINTR) {
            result = poll(&mut polled, PollTimeout::NONE);
        }
        if result.is_ok() {
            // The command may have ended.
            let _ = closed.send(());
        }
    });
    if was_closed.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns true if a command failed because the reader of its output closed the pipe, as `head` does. A failed connection
/// is another error: its text contains the cause.
pub(crate) fn is_output_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints a note on stderr, which may be closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "folio: {}", printable(text));
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
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A stream whose bytes a test reads.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(is_terminal: bool, write: impl FnOnce(&mut Screen)) -> String {
        let stream = Written::default();
        write(&mut Screen::new(Box::new(stream.clone()), is_terminal, is_terminal));
        let bytes = stream.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn plain(text: &str) -> Vec<Span> {
        vec![Span::new(Style::new(), text)]
    }

    #[test]
    fn only_a_closed_output_is_recognized() {
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_output_closed(&closed().into()));
        assert!(is_output_closed(&anyhow::Error::from(closed()).context("the list cannot be printed")));
        assert!(!is_output_closed(&std::io::Error::from(std::io::ErrorKind::StorageFull).into()));
        assert!(!is_output_closed(&anyhow::anyhow!("the connection to the server failed: {}", closed())));
    }

    #[test]
    fn a_preview_is_replaced_by_the_next_one_but_not_by_other_output() {
        let shown = written(true, |screen| {
            screen.preview(&[plain("one"), plain("two")]);
            screen.preview(&[plain("three")]);
            screen.line(Style::new(), "note");
            screen.preview(&[plain("four")]);
        });
        assert_eq!(shown, "one\ntwo\n\u{1b}[2A\u{1b}[Jthree\nnote\nfour\n");
        assert_eq!(written(false, |screen| screen.preview(&[plain("one")])), "");
    }

    #[test]
    fn spans_cannot_steer_the_terminal_or_start_a_line() {
        assert_eq!(written(true, |screen| screen.spans(&plain("a\u{1b}[2J\nb"))), "a\u{fffd}[2J b\n");
    }

    #[test]
    fn nothing_in_a_text_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\u{9b}2Jc\u{7}\r\nd\te"), "a\u{fffd}[31mb\u{fffd}2Jc\u{fffd}\nd\te");
        assert_eq!(printable("1\u{202e}2"), "1\u{fffd}2");
        assert_eq!(printable("Grüße, 世界"), "Grüße, 世界");
    }
}
