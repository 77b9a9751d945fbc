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
mod tests {
    use super::*;

    fn thinking(text: &str) -> Kind {
        Kind::ThinkingDelta(v1::ThinkingDelta { text: text.to_owned() })
    }

    fn text(text: &str) -> Kind {
        Kind::TextDelta(v1::TextDelta { text: text.to_owned() })
    }

    fn round(attempt: u32) -> Kind {
        Kind::RoundStarted(v1::RoundStarted { round: 1, attempt })
    }

    fn completed(text: &str) -> Kind {
        Kind::Completed(v1::Completed { text: text.to_owned(), ..v1::Completed::default() })
    }

    const NOW: Duration = Duration::from_secs(10);

    #[test]
    fn thinking_folds_into_one_line_with_time_and_length() {
        let mut view = View::new();
        assert!(view.event(&thinking("first I "), NOW).is_empty());
        assert!(view.event(&thinking("think"), NOW + Duration::from_millis(900)).is_empty());
        assert_eq!(view.waiting(), Waiting::Thinking);
        let shown = view.event(&text("Hello"), NOW + Duration::from_millis(2_500));
        assert_eq!(texts(&shown), ["▸ thought for 2.5 s (13 characters; /thinking shows it)", "Hello"]);
        assert_eq!(view.thinking(), "first I think");
    }

    #[test]
    fn unfolded_thinking_streams() {
        let mut view = View::new();
        view.unfold(true);
        assert_eq!(view.event(&thinking("hm"), NOW), [Output::Part(DIM, "hm".to_owned())]);
        assert_eq!(texts(&view.event(&text("Hello"), NOW)), ["\n", "Hello"]);
    }

    #[test]
    fn an_answer_is_shown_once_with_or_without_streaming() {
        let mut view = View::new();
        view.event(&round(1), NOW);
        view.event(&text("Hel"), NOW);
        view.event(&text("lo"), NOW);
        assert!(view.event(&completed("Hello"), NOW).is_empty());
        view.event(&round(1), NOW);
        assert_eq!(texts(&view.event(&completed("Hello"), NOW)), ["Hello"]);
    }

    #[test]
    fn a_second_attempt_discards_the_text_of_the_first() {
        let mut view = View::new();
        view.event(&round(1), NOW);
        view.event(&text("Hel"), NOW);
        assert!(texts(&view.event(&round(2), NOW))[0].contains("is discarded"));
        view.event(&text("Good day"), NOW);
        assert!(view.event(&completed("Good day"), NOW).is_empty());
    }

    #[test]
    fn a_failure_states_whether_it_can_be_resumed() {
        let mut view = View::new();
        let error =
            v1::Error { message: "no answer".to_owned(), reason: "MODEL_TIMEOUT".to_owned(), ..v1::Error::default() };
        let failed = |retriable| Kind::Failed(v1::Failed { error: Some(error.clone()), retriable });
        assert_eq!(
            texts(&view.event(&failed(true), NOW)),
            ["The turn failed: no answer (MODEL_TIMEOUT); /retry resumes it"]
        );
        assert_eq!(texts(&view.event(&failed(false), NOW)), ["The turn failed: no answer (MODEL_TIMEOUT)"]);
    }

    #[test]
    fn the_usage_of_each_round_of_the_last_turn_is_kept() {
        let started = Kind::TurnStarted(v1::TurnStarted::default());
        let finished = |round, input_tokens| {
            let usage = Some(v1::Usage { input_tokens, ..v1::Usage::default() });
            Kind::RoundFinished(v1::RoundFinished { round, usage, ..v1::RoundFinished::default() })
        };
        let mut view = View::whole();
        for kind in [started.clone(), finished(1, 900), finished(2, 950), started, finished(1, 400), finished(3, 450)] {
            assert_eq!(view.event(&kind, Duration::ZERO), Vec::new());
        }
        let tokens = |(round, usage): (u32, v1::Usage)| (round, usage.input_tokens);
        assert_eq!(view.into_usages().into_iter().map(tokens).collect::<Vec<_>>(), [(1, 400), (3, 450)]);
    }

    #[test]
    fn the_usage_of_a_turn_shows_cached_and_counted_tokens() {
        let usage = |cached_input_tokens, reported, model_calls| v1::Usage {
            input_tokens: 900,
            cached_input_tokens,
            output_tokens: 20,
            reported,
            model_calls,
            credits: 0,
        };
        let cached = "900 tokens in (640 from the provider's cache), 20 out, 2 model calls";
        assert_eq!(usage_line(&usage(640, true, 2)), cached);
        assert_eq!(usage_line(&usage(0, false, 1)), "900 tokens in, 20 out, 1 model call, counted by Folio");
    }

    #[test]
    fn a_snapshot_shows_the_turn_so_far() {
        let mut view = View::new();
        let turn = v1::Turn {
            rounds: vec![v1::Round { round: 1, text: "So far".to_owned(), ..v1::Round::default() }],
            ..v1::Turn::default()
        };
        let shown = view.event(&Kind::Snapshot(v1::Snapshot { turn: Some(turn) }), NOW);
        assert!(texts(&shown).contains(&"So far".to_owned()), "{shown:?}");
        assert!(view.event(&completed("So far"), NOW).is_empty());
    }

    fn preview(shown: &[Output]) -> Vec<String> {
        let Some(Output::Preview(lines)) = shown.last() else { panic!("no preview: {shown:?}") };
        lines.iter().map(|line| crate::layout::text_of(line)).collect()
    }

    #[test]
    fn formatted_text_is_previewed_until_its_block_is_complete() {
        let mut view = View::new();
        view.set_width(Some(20));
        view.event(&round(1), NOW);
        assert_eq!(preview(&view.event(&text("The **total** is"), NOW)), ["The total is"]);
        assert_eq!(preview(&view.event(&text(" 42 euros and"), NOW)), ["The total is 42", "euros and"]);
        let shown = view.event(&text(" more.\n\n- one"), NOW);
        assert_eq!(shown[0], Output::Preview(Vec::new()), "the preview is replaced");
        assert_eq!(texts(&shown), ["The total is 42", "euros and more."]);
        assert_eq!(preview(&shown), ["", "• one"]);
        let shown = view.event(&completed("The **total** is 42 euros and more.\n\n- one"), NOW);
        assert_eq!(texts(&shown), ["", "• one"]);
        assert!(view.event(&completed("The **total** is 42 euros and more.\n\n- one"), NOW).is_empty());
    }

    #[test]
    fn control_characters_of_a_formatted_text_are_replaced() {
        let mut view = View::new();
        view.set_width(Some(40));
        view.event(&round(1), NOW);
        assert_eq!(preview(&view.event(&text("a\u{1b}[2Jb"), NOW)), ["a\u{fffd}[2Jb"]);
        assert_eq!(texts(&view.event(&completed("c\u{1b}d"), NOW)), ["a\u{fffd}[2Jb", "c\u{fffd}d"]);
    }

    #[test]
    fn calls_that_read_a_guide_are_folded() {
        let mut view = View::new();
        let call = |name: &str| v1::Call { name: name.to_owned(), ..v1::Call::default() };
        let calls = v1::ToolCalls { calls: vec![call("help_schemas"), call("list_tags")] };
        assert_eq!(texts(&view.event(&Kind::ToolCalls(calls), NOW)), ["→ list_tags"]);
    }
}
