//! Progress of files on a terminal: a line for each file in work. Without a terminal, only notes are printed.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{note, printable};

/// Interval between two states of a spinner.
const TICK: Duration = Duration::from_millis(120);

const BAR: &str = "{msg} {bar:30} {bytes}/{total_bytes}";
const COUNT: &str = "{msg} {bar:30} {pos}/{len} {elapsed}";
const SPINNER: &str = "{msg} {spinner} {elapsed}";

/// The lines on stderr. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress(MultiProgress);

impl Progress {
    /// Shows the progress if stderr is a terminal.
    pub(crate) fn stderr() -> Self {
        Self::visible_if(std::io::stderr().is_terminal())
    }

    pub(crate) fn visible_if(is_visible: bool) -> Self {
        let target = if is_visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(MultiProgress::with_draw_target(target))
    }

    /// Adds the line of a file or a command. Dropping it removes the line.
    pub(crate) fn line(&self, name: &str) -> ProgressLine {
        let name = printable(name).replace('\n', " ");
        ProgressLine { lines: self.0.clone(), bar: self.0.add(ProgressBar::new_spinner()), name }
    }
}

/// The current step of a file or a command.
pub(crate) struct ProgressLine {
    lines: MultiProgress,
    bar: ProgressBar,
    name: String,
}

impl ProgressLine {
    /// Shows an upload. The returned function receives the number of bytes sent so far.
    pub(crate) fn upload(&self, bytes: usize) -> impl Fn(usize) + Send + Sync + use<> {
        self.bar.set_length(bytes as u64);
        self.show(BAR, "uploading");
        let bar = self.bar.clone();
        move |sent| bar.set_position(sent as u64)
    }

    /// Shows a step of unknown duration.
    pub(crate) fn step(&self, step: &str) {
        self.show(SPINNER, step);
    }

    /// Shows how many of the items of a job have ended.
    pub(crate) fn count(&self, ended: i32, total: i32, step: &str) {
        let number = |count: i32| u64::try_from(count).unwrap_or_default();
        self.bar.set_length(number(total));
        self.show(COUNT, step);
        self.bar.set_position(number(ended));
    }

    /// Prints a note above the lines, also without a terminal.
    pub(crate) fn note(&self, text: &str) {
        self.lines.suspend(|| note(&format!("{}: {text}", self.name)));
    }

    fn show(&self, template: &str, step: &str) {
        self.bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
        self.bar.set_message(format!("{}: {}", self.name, printable(step)));
        self.bar.enable_steady_tick(TICK);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
