//! Formats the events of a turn as styled text, without access to a terminal. The time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use anstyle::Style;
use folio_proto::v1;
use folio_proto::v1::event::Kind;

use super::{card, markdown};
use crate::layout::Line;
use crate::terminal::{BAD, DIM, GOOD, NOTE, printable};

/// Maximum number of characters of thinking that `/thinking` shows.
const THINKING_CHARS: usize = 100_000;

/// Maximum size of the text that a preview formats.
const PREVIEW_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Output {
    /// Text in lines of its own.
    Line(Style, String),
    /// Text without a line end.
    Part(Style, String),
    /// A formatted line.
    Spans(Line),
    /// Formatted lines that replace the last preview.
    Preview(Vec<Line>),
}

/// The component that the turn waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Nothing,
    /// A model call without a response.
    Model,
    /// Thinking that is not shown as it arrives.
    Thinking,
    Tool,
    /// The text of a document.
    Text,
}

#[derive(Debug)]
pub(crate) struct View {
    /// If true, thinking is shown as it arrives.
    unfolded: bool,
    /// If true, the start of each round and the calls that need a decision are shown.
    whole: bool,
    /// The thinking of the last turn that had any.
    thinking: String,
    /// Number of characters and start of the current folded thinking.
    folding: Option<(usize, Duration)>,
    /// If true, the current line contains thinking.
    has_open_thinking: bool,
    /// The received text of the current round.
    text: String,
    /// Number of columns of formatted text. None: Markdown is shown as it arrives.
    width: Option<usize>,
    /// Length of the text whose blocks were shown, in bytes.
    formatted_bytes: usize,
    waiting: Waiting,
    /// Usage of the model calls of the current turn, by the number of the round.
    usages: BTreeMap<u32, v1::Usage>,
}

impl View {
    /// Starts with folded thinking.
    pub(crate) fn new() -> Self {
        Self {
            unfolded: false,
            whole: false,
            thinking: String::new(),
            folding: None,
            has_open_thinking: false,
            text: String::new(),
            width: None,
            formatted_bytes: 0,
            waiting: Waiting::Nothing,
            usages: BTreeMap::new(),
        }
    }

    /// Sets the number of columns of formatted text. None: Markdown is shown as it arrives.
    pub(crate) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
    }

    /// Creates the state for output without cards and commands: it shows thinking, rounds and all calls.
    pub(crate) fn whole() -> Self {
        Self { unfolded: true, whole: true, ..Self::new() }
    }

    /// Sets whether thinking is shown as it arrives.
    pub(crate) fn unfold(&mut self, unfolded: bool) {
        self.unfolded = unfolded;
    }

    /// Returns the thinking of the last turn. Empty if there was none.
    pub(crate) fn thinking(&self) -> &str {
        &self.thinking
    }

    /// Returns the usage of the model call of each round of the last turn. Rounds whose events were not received are missing.
    pub(crate) fn into_usages(self) -> BTreeMap<u32, v1::Usage> {
        self.usages
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// Formats an event. `now` is the time since any fixed moment.
    pub(crate) fn event(&mut self, kind: &Kind, now: Duration) -> Vec<Output> {
        let mut shown = Vec::new();
        if !matches!(kind, Kind::ThinkingDelta(_)) {
            shown.extend(self.fold(now));
            if std::mem::take(&mut self.has_open_thinking) {
                shown.push(Output::Part(Style::new(), "\n".to_owned()));
            }
        }
        if !matches!(kind, Kind::TextDelta(_)) {
            shown.extend(self.end_text());
        }
        self.waiting = match kind {
            Kind::TurnStarted(_) | Kind::RoundStarted(_) | Kind::ToolResult(_) | Kind::NodeEnded(_) => Waiting::Model,
            Kind::ThinkingDelta(_) if !self.unfolded => Waiting::Thinking,
            Kind::ToolStarted(_) | Kind::WaitingForStore(_) | Kind::TasksStarted(_) | Kind::TaskEnded(_) => {
                Waiting::Tool
            }
            _ => Waiting::Nothing,
        };
        match kind {
            Kind::TurnStarted(_) => {
                self.thinking.clear();
                self.usages.clear();
            }
            Kind::RoundStarted(round) => {
                self.text.clear();
                self.formatted_bytes = 0;
                if self.whole {
                    shown.push(Output::Line(DIM, format!("\nRound {}", round.round)));
                }
                if round.attempt > 1 {
                    let again = "(the model is called again; its earlier text of this round is discarded)";
                    shown.push(Output::Line(NOTE, again.to_owned()));
                }
            }
            Kind::ThinkingDelta(delta) => shown.extend(self.think(&delta.text, now)),
            Kind::TextDelta(delta) => {
                self.text.push_str(&delta.text);
                match self.width {
                    Some(width) => shown.extend(self.format_text(width, delta.text.contains('\n'))),
                    None => shown.push(Output::Part(Style::new(), delta.text.clone())),
                }
            }
            Kind::ToolCalls(calls) => {
                let is_listed = |call: &&v1::Call| (self.whole || !call.needs_approval) && !card::is_help(&call.name);
                shown.extend(calls.calls.iter().filter(is_listed).map(card::brief));
            }
            Kind::RoundFinished(finished) => {
                self.usages.insert(finished.round, finished.usage.unwrap_or_default());
            }
            Kind::ToolStarted(_) | Kind::AwaitingApproval(_) | Kind::NodeStarted(_) | Kind::NodeEnded(_) => {}
            Kind::WaitingForStore(call) => {
                let message = format!("({} waits for the store, and continues when the store executes it)", call.name);
                shown.push(Output::Line(NOTE, message));
            }
            Kind::TasksStarted(started) => shown.extend(started.group.iter().flat_map(card::tasks)),
            Kind::TaskEnded(ended) => shown.extend(card::task_ended(ended)),
            Kind::ToolResult(result) => shown.push(card::result(result)),
            Kind::Snapshot(snapshot) => shown.extend(self.snapshot(snapshot.turn.as_ref())),
            closing => shown.extend(self.closing(closing)),
        }
        shown
    }

    /// Shows the complete blocks of the text, and a preview of the incomplete one. `has_line_end`: the newest delta may
    /// complete a block. Other deltas are not parsed with the whole block, which may be long.
    fn format_text(&mut self, width: usize, has_line_end: bool) -> Vec<Output> {
        let rest = self.text.get(self.formatted_bytes..).unwrap_or_default();
        let complete = if has_line_end { markdown::complete_bytes(rest) } else { 0 };
        let mut lines = Vec::new();
        if complete > 0 {
            let blocks = rest.get(..complete).unwrap_or_default().to_owned();
            lines.extend(self.blocks(&blocks, width));
            self.formatted_bytes += complete;
        }
        let rest = self.text.get(self.formatted_bytes..).unwrap_or_default();
        let start = rest.len().saturating_sub(PREVIEW_BYTES);
        let start = (start..=rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let rest = rest.get(start..).unwrap_or_default();
        let mut preview = markdown::render(&printable(rest), width);
        if self.formatted_bytes > 0 {
            preview.insert(0, Line::new());
        }
        lines.push(Output::Preview(preview));
        lines
    }

    /// Shows the last block of the text, after which no delta follows.
    fn end_text(&mut self) -> Vec<Output> {
        let (Some(width), rest) = (self.width, self.text.get(self.formatted_bytes..).unwrap_or_default()) else {
            return Vec::new();
        };
        if rest.trim().is_empty() {
            return Vec::new();
        }
        let rest = rest.to_owned();
        let lines = self.blocks(&rest, width);
        self.formatted_bytes = self.text.len();
        lines
    }

    /// Formats blocks, which replace the preview, after an empty line if blocks precede.
    fn blocks(&self, text: &str, width: usize) -> Vec<Output> {
        let mut lines = vec![Output::Preview(Vec::new())];
        if self.formatted_bytes > 0 {
            lines.push(Output::Spans(Line::new()));
        }
        lines.extend(answer(text, Some(width)));
        lines
    }

    fn think(&mut self, text: &str, now: Duration) -> Option<Output> {
        let length = text.chars().count();
        self.thinking.extend(text.chars().take(THINKING_CHARS.saturating_sub(self.thinking.chars().count())));
        if self.unfolded {
            self.has_open_thinking = true;
            return Some(Output::Part(DIM, text.to_owned()));
        }
        let (chars, since) = self.folding.unwrap_or((0, now));
        self.folding = Some((chars + length, since));
        None
    }

    /// Returns the line that summarizes folded thinking.
    fn fold(&mut self, now: Duration) -> Option<Output> {
        let (chars, since) = self.folding.take()?;
        let seconds = now.saturating_sub(since).as_secs_f64();
        let line = format!("▸ thought for {seconds:.1} s ({chars} characters; /thinking shows it)");
        Some(Output::Line(DIM, line))
    }

    /// Formats the state of a turn whose events were not received.
    fn snapshot(&mut self, turn: Option<&v1::Turn>) -> Vec<Output> {
        let Some(turn) = turn else { return Vec::new() };
        let mut shown = vec![Output::Line(DIM, "(reconnected; the turn so far)".to_owned())];
        for round in &turn.rounds {
            shown.extend(card::round(round, self.width));
        }
        self.text = turn.rounds.last().map(|round| round.text.clone()).unwrap_or_default();
        self.formatted_bytes = self.text.len();
        self.waiting = Waiting::Model;
        shown
    }

    fn closing(&mut self, kind: &Kind) -> Vec<Output> {
        match kind {
            Kind::Completed(completed) => self.completed(completed),
            Kind::Failed(failed) => vec![Output::Line(BAD, failure(failed, !self.whole))],
            Kind::Cancelled(_) => vec![Output::Line(NOTE, "The turn was cancelled.".to_owned())],
            Kind::Expired(_) => {
                let text = "No decision was made in time: the turn expired, and its calls were not executed.";
                vec![Output::Line(NOTE, text.to_owned())]
            }
            Kind::Superseded(_) => vec![Output::Line(NOTE, "The turn was superseded by another message.".to_owned())],
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, completed: &v1::Completed) -> Vec<Output> {
        let mut shown = Vec::new();
        if completed.text != self.text {
            shown.extend(answer(&completed.text, self.width));
        }
        let note = match completed.finish_reason() {
            v1::FinishReason::Length => Some("(The answer was cut at the model's output limit.)"),
            v1::FinishReason::ContentFilter => Some("(The provider's content filter blocked the answer.)"),
            _ => None,
        };
        shown.extend(note.map(|note| Output::Line(NOTE, note.to_owned())));
        if let Some(usage) = &completed.usage {
            shown.push(Output::Line(DIM, usage_line(usage)));
        }
        shown
    }
}

fn usage_line(usage: &v1::Usage) -> String {
    let counted = if usage.reported { "" } else { ", counted by Folio" };
    let calls = folio_types::counted(usage.model_calls, "model call");
    let cached = match usage.cached_input_tokens {
        0 => String::new(),
        cached => format!(" ({cached} from the provider's cache)"),
    };
    format!("{} tokens in{cached}, {} out, {calls}{counted}", usage.input_tokens, usage.output_tokens)
}

/// Formats a failure. `offers_retry`: the user can enter commands.
fn failure(failed: &v1::Failed, offers_retry: bool) -> String {
    let (message, reason) = match &failed.error {
        Some(error) => (error.message.as_str(), error.reason.as_str()),
        None => ("unknown", "INTERNAL"),
    };
    let again = if failed.retriable && offers_retry { "; /retry resumes it" } else { "" };
    format!("The turn failed: {message} ({reason}){again}")
}

/// Formats a text of the model. `width`: number of columns; None: the text remains Markdown.
pub(crate) fn answer(text: &str, width: Option<usize>) -> Vec<Output> {
    match width {
        Some(width) => markdown::render(&printable(text), width).into_iter().map(Output::Spans).collect(),
        None => vec![Output::Line(Style::new(), text.to_owned())],
    }
}

/// Formats a message of an earlier turn. `width`: number of columns; None: the text remains Markdown.
pub(crate) fn message(message: &v1::Message, width: Option<usize>) -> Vec<Output> {
    use v1::message::Kind;
    match &message.kind {
        Some(Kind::User(user)) => {
            let text = Output::Line(GOOD, format!("you: {}", user.text));
            let image = |image: &v1::MessageImage| {
                Output::Line(DIM, format!("→ image, {} x {} pixels", image.width, image.height))
            };
            std::iter::once(text).chain(user.images.iter().map(image)).collect()
        }
        Some(Kind::Assistant(assistant)) => {
            let mut shown = Vec::new();
            if !assistant.text.is_empty() {
                shown.extend(answer(&assistant.text, width));
            }
            let calls = assistant.calls.iter().filter(|call| !card::is_help(&call.name));
            let names: Vec<&str> = calls.map(|call| call.name.as_str()).collect();
            if !names.is_empty() {
                shown.push(Output::Line(DIM, card::one_line(&format!("→ {}", names.join(", ")), 200)));
            }
            shown
        }
        Some(Kind::Tool(_)) | None => Vec::new(),
    }
}

/// Returns the texts without their style. A preview is omitted.
#[cfg(test)]
pub(super) fn texts(shown: &[Output]) -> Vec<String> {
    let text = |output: &Output| match output {
        Output::Line(_, text) | Output::Part(_, text) => Some(text.clone()),
        Output::Spans(line) => Some(crate::layout::text_of(line)),
        Output::Preview(_) => None,
    };
    shown.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests;
