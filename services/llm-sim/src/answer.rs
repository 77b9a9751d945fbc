//! Responses of the endpoint to chat requests.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A response before it is cut into chunks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    pub text: String,
    /// Thinking that precedes the text.
    pub thinking: Vec<Thinking>,
    pub thinking_form: ThinkingForm,
    pub calls: Vec<Call>,
    /// Reported usage. None: counted at four bytes per token.
    pub usage: Option<UsageCounts>,
    /// If true, no usage is reported, even if it is requested.
    pub no_usage: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thinking {
    pub text: String,
    pub signature: Option<String>,
    /// Data of redacted thinking, which has no text.
    pub data: Option<String>,
}

/// Wire form of thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingForm {
    /// `thinking_blocks` with signatures, together with `reasoning_content`.
    #[default]
    Blocks,
    /// `reasoning_content` only, without signatures.
    ReasoningContent,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    /// Id of the call. None: generated. Ids may repeat, as with some providers.
    pub id: Option<String>,
    pub name: String,
    pub arguments: Value,
    /// Arguments as literal text, which may be malformed.
    pub raw_arguments: Option<String>,
}

impl Call {
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { id: None, name: name.into(), arguments, raw_arguments: None }
    }

    /// Returns the arguments as text for the wire.
    pub fn arguments_text(&self) -> String {
        match (&self.raw_arguments, &self.arguments) {
            (Some(raw), _) => raw.clone(),
            (None, Value::Null) => "{}".to_owned(),
            (None, arguments) => arguments.to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsageCounts {
    pub prompt_tokens: u64,
    /// Input tokens that were read from a cache.
    pub cached_tokens: u64,
    pub completion_tokens: u64,
}

impl Answer {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn calls(text: impl Into<String>, calls: Vec<Call>) -> Self {
        Self { text: text.into(), calls, ..Self::default() }
    }

    pub fn finish(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }

    /// Returns the usage to report for a prompt of this size. None: the response omits the usage.
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

/// Counts four bytes per token, at least one token.
fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}
