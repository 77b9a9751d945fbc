//! The output of the demo while it runs.

use std::time::Duration;

use anstyle::Style;
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::terminal::{BAD, DIM, GOOD, NAME, NOTE, Screen, printable};

/// Maximum number of characters of a line of JSON before it is broken up.
const LINE_CHARS: usize = 100;
/// Maximum number of characters of a tool's result.
const RESULT_CHARS: usize = 400;

/// The demo's screen.
pub(crate) struct Show {
    screen: Screen,
    thinking: bool,
}

impl Show {
    /// Creates the screen: stderr if stdout is kept for the JSON object.
    pub(crate) fn new(json: bool) -> Self {
        Self { screen: if json { Screen::stderr() } else { Screen::stdout() }, thinking: false }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, style: Style, text: &str) {
        self.screen.line(style, text);
    }

    /// Shows a spinner, on a terminal only.
    pub(crate) fn waiting(&self, what: &'static str) -> Waiting {
        if !self.screen.is_terminal {
            return Waiting(None);
        }
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::new_spinner().with_style(style).with_message(what);
        bar.enable_steady_tick(Duration::from_millis(120));
        Waiting(Some(bar))
    }

    /// Shows an event of the turn.
    pub(crate) fn event(&mut self, event: &Kind) {
        match event {
            Kind::RoundStarted(round) if round.attempt > 1 => {
                self.line(DIM, &format!("\nRound {} (attempt {})", round.round, round.attempt));
            }
            Kind::RoundStarted(round) => self.line(DIM, &format!("\nRound {}", round.round)),
            Kind::ThinkingDelta(delta) => {
                self.thinking = true;
                self.screen.part(DIM, &delta.text);
            }
            Kind::TextDelta(delta) => {
                if std::mem::take(&mut self.thinking) {
                    self.screen.end_line();
                }
                self.screen.part(Style::new(), &delta.text);
            }
            Kind::ToolCalls(calls) => {
                for call in &calls.calls {
                    self.call(call);
                }
            }
            Kind::ToolResult(result) => self.result(&result.name, result.status(), &result.content),
            Kind::Failed(failed) => {
                let message = failed.error.as_ref().map(|error| error.message.as_str()).unwrap_or("unknown");
                self.line(BAD, &format!("The turn failed: {message}"));
            }
            Kind::Cancelled(_) => self.line(BAD, "The turn was cancelled."),
            Kind::Expired(_) => self.line(BAD, "No decision came in time."),
            Kind::Superseded(_) => self.line(BAD, "The turn was superseded by another message."),
            _ => {}
        }
    }

    fn call(&mut self, call: &v1::Call) {
        let access = if call.needs_approval { " (asks for approval)" } else { "" };
        self.line(NAME, &format!("→ {}{access}", call.name));
        self.line(DIM, &indented(&pretty(&call.arguments_json)));
    }

    fn result(&mut self, name: &str, status: v1::CallStatus, content: &str) {
        let (style, mark) = if status == v1::CallStatus::Ok { (GOOD, "✓") } else { (BAD, "✗") };
        self.line(style, &format!("{mark} {name}"));
        self.line(DIM, &indented(&shortened(content)));
    }

    /// Shows a decision that was made without a question.
    pub(crate) fn approved(&mut self, call: &v1::Call) {
        self.line(NOTE, &format!("approved: {}", call.name));
    }
}

/// A spinner, or nothing.
pub(crate) struct Waiting(Option<ProgressBar>);

impl Waiting {
    /// Advances the spinner.
    pub(crate) fn tick(&self) {
        if let Some(bar) = &self.0 {
            bar.tick();
        }
    }

    /// Removes the spinner.
    pub(crate) fn end(self) {
        drop(self);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

/// Formats JSON with line breaks if its line would be long. Other text is returned unchanged.
pub(crate) fn pretty(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(value) => {
            let mut out = String::new();
            lay_out(&value, 0, &mut out);
            out
        }
        Err(_) => json.to_owned(),
    }
}

fn lay_out(value: &Value, indent: usize, out: &mut String) {
    let compact = value.to_string();
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, v)| (format!("{}: ", Value::from(name.as_str())), v)).collect()
        }
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() || indent + compact.len() <= LINE_CHARS {
        out.push_str(&compact);
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    out.push(open);
    for (at, (name, part)) in parts.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n(' ', indent + 2));
        out.push_str(&name);
        lay_out(part, indent + 2, out);
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(close);
}

fn shortened(content: &str) -> String {
    let content = printable(content);
    let mut shown: String = content.chars().take(RESULT_CHARS).collect();
    if shown.len() < content.len() {
        shown.push_str(" …");
    }
    shown
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_broken_up_only_where_a_line_would_be_long() {
        assert_eq!(pretty(r#"{"a":[1,2],"b":"x"}"#), r#"{"a":[1,2],"b":"x"}"#);
        let long = "y".repeat(90);
        let shown = pretty(&format!(r#"{{"a":[1,2],"b":"{long}"}}"#));
        assert_eq!(shown, format!("{{\n  \"a\": [1,2],\n  \"b\": \"{long}\"\n}}"));
        assert_eq!(pretty("no json"), "no json");
    }
}
