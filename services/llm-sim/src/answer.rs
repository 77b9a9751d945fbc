//! What the endpoint answers to one chat request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An answer, before it is cut into chunks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The thinking before it.
    pub thinking: Vec<Thinking>,
    /// The form in which thinking is sent.
    pub thinking_form: ThinkingForm,
    /// The tool calls that it asks for.
    pub calls: Vec<Call>,
    /// Why it stopped; where absent `tool_calls` if there are calls, else `stop`. `none` leaves it out.
    pub finish_reason: Option<String>,
    /// What it claims to have used; where absent it is counted at four bytes a token.
    pub usage: Option<UsageCounts>,
    /// Reports no usage even if asked.
    pub no_usage: bool,
}

/// A piece of thinking.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thinking {
    /// The text of it.
    pub text: String,
    /// The signature over it.
    pub signature: Option<String>,
    /// Redacted thinking: data instead of a text.
    pub data: Option<String>,
}

/// How thinking is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingForm {
    /// `thinking_blocks`, with signatures, beside `reasoning_content`.
    #[default]
    Blocks,
    /// `reasoning_content` alone: no signatures.
    ReasoningContent,
}

/// A tool call that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    /// The id; where absent one is made. May repeat, as with some providers.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Value,
    /// The arguments as this very text, well-formed or not.
    pub raw_arguments: Option<String>,
}

impl Call {
    /// A call with these arguments.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { id: None, name: name.into(), arguments, raw_arguments: None }
    }

    /// The text of the arguments as it goes over the wire.
    pub fn arguments_text(&self) -> String {
        match (&self.raw_arguments, &self.arguments) {
            (Some(raw), _) => raw.clone(),
            (None, Value::Null) => "{}".to_owned(),
            (None, arguments) => arguments.to_string(),
        }
    }
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsageCounts {
    /// Of the prompt.
    pub prompt_tokens: u64,
    /// Of the prompt, read from a cache.
    pub cached_tokens: u64,
    /// Of the answer.
    pub completion_tokens: u64,
}

impl Answer {
    /// An answer of text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// An answer that asks for tools.
    pub fn calls(text: impl Into<String>, calls: Vec<Call>) -> Self {
        Self { text: text.into(), calls, ..Self::default() }
    }

    /// The finish reason that is sent, if any.
    pub fn finish(&self) -> Option<&str> {
        match self.finish_reason.as_deref() {
            Some("none") => None,
            Some(reason) => Some(reason),
            None if self.calls.is_empty() => Some("stop"),
            None => Some("tool_calls"),
        }
    }

    /// The usage that is reported for a prompt of so many bytes, if any.
    pub fn usage_for(&self, prompt_bytes: usize) -> Option<UsageCounts> {
        if self.no_usage {
            return None;
        }
        let thinking: usize = self.thinking.iter().map(|block| block.text.len()).sum();
        let calls: usize = self.calls.iter().map(|call| call.name.len() + call.arguments_text().len()).sum();
        let counted = UsageCounts {
            prompt_tokens: tokens(prompt_bytes),
            cached_tokens: 0,
            completion_tokens: tokens(self.text.len() + thinking + calls),
        };
        Some(self.usage.unwrap_or(counted))
    }
}

/// Four bytes a token, at least one.
fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}
