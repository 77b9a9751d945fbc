//! The chat's screen: formatted output, and a spinner while the server works.

use std::time::Duration;

use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};

use super::view::{Output, Waiting};
use crate::terminal::{BAD, Screen};

/// A [`Screen`] that removes its spinner before it writes text.
pub(crate) struct ChatScreen {
    screen: Screen,
    spinner: Option<(Waiting, ProgressBar)>,
}

impl ChatScreen {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, spinner: None }
    }

    /// Returns the screen without a spinner, for output that shows its own progress.
    pub(crate) fn plain(&mut self) -> &mut Screen {
        self.wait(Waiting::Nothing);
        &mut self.screen
    }

    /// Returns the number of columns of formatted text. None: the output is not a terminal.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.screen.columns()
    }

    pub(crate) fn show(&mut self, shown: Vec<Output>) {
        if shown.is_empty() {
            return;
        }
        self.wait(Waiting::Nothing);
        for shown in shown {
            match shown {
                Output::Line(style, text) => self.screen.line(style, &text),
                Output::Part(style, text) => self.screen.write_text(style, &text),
                Output::Spans(line) => self.screen.spans(&line),
                Output::Preview(lines) => self.screen.preview(&lines),
            }
        }
    }

    pub(crate) fn line(&mut self, style: Style, text: &str) {
        self.show(vec![Output::Line(style, text.to_owned())]);
    }

    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.line(BAD, &format!("{error:#}"));
    }

    pub(crate) fn end_line(&mut self) {
        self.wait(Waiting::Nothing);
        self.screen.end_line();
    }

    /// Shows a spinner with the awaited component. Only on a terminal.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        if !self.screen.is_terminal || self.spinner.as_ref().is_some_and(|(shown, _)| *shown == waiting) {
            return;
        }
        if let Some((_, bar)) = self.spinner.take() {
            bar.finish_and_clear();
        }
        let what = match waiting {
            Waiting::Nothing => return,
            Waiting::Model => "waiting for the model",
            Waiting::Thinking => "thinking",
            Waiting::Tool => "running a tool",
            Waiting::Text => "reading its text",
        };
        self.screen.end_line();
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let bar = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            .with_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        self.spinner = Some((waiting, bar));
    }
}
