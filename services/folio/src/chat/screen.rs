//! The chat's screen: what is shown, and a sign of life while there is nothing to show.

use std::time::Duration;

use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};

use super::view::{Shown, Waiting};
use crate::terminal::{BAD, Screen};

/// A [`Screen`] with a spinner that never gets in the way of text.
pub(super) struct ChatScreen {
    screen: Screen,
    spinner: Option<(Waiting, ProgressBar)>,
}

impl ChatScreen {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, spinner: None }
    }

    /// The screen itself, for what shows its own progress.
    pub(super) fn plain(&mut self) -> &mut Screen {
        self.wait(Waiting::Nothing);
        &mut self.screen
    }

    /// Writes.
    pub(super) fn show(&mut self, shown: Vec<Shown>) {
        if shown.is_empty() {
            return;
        }
        self.wait(Waiting::Nothing);
        for shown in shown {
            match shown {
                Shown::Line(style, text) => self.screen.line(style, &text),
                Shown::Piece(style, text) => self.screen.piece(style, &text),
            }
        }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, style: Style, text: &str) {
        self.show(vec![Shown::Line(style, text.to_owned())]);
    }

    /// Writes what went wrong.
    pub(super) fn error(&mut self, error: &anyhow::Error) {
        self.line(BAD, &format!("{error:#}"));
    }

    /// Ends a half line.
    pub(super) fn end_line(&mut self) {
        self.wait(Waiting::Nothing);
        self.screen.end_line();
    }

    /// Says what is being waited for, where a person looks at it.
    pub(super) fn wait(&mut self, waiting: Waiting) {
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
