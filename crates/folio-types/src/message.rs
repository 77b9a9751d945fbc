//! Messages of a conversation, as they are stored and as a model is sent them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Message {
    /// What the user wrote.
    User {
        /// The text.
        text: String,
    },
    /// What the model answered in one round.
    Assistant {
        /// The text; may be empty where there are calls.
        text: String,
        /// The thinking before it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thinking: Vec<ThinkingBlock>,
        /// The tool calls that it asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// What came of a tool call.
    Tool {
        /// The `id` of the call in the assistant message before.
        call: String,
        /// The result, as the model reads it.
        content: String,
    },
}

/// A tool call as a model sees it in its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// `call_<turn>_<round>_<index>`: one of its kind in the thread, and in the alphabet that every provider takes.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments; an object, empty where the model's were no JSON.
    pub arguments: Value,
}

/// A piece of a model's thinking. Only signed ones are sent back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThinkingBlock {
    /// The thinking, empty where the provider gave only data.
    pub text: String,
    /// The provider's signature over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What the provider gave instead of a text (redacted thinking).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The model that thought it, as it is called here: only it is sent this back. None: nobody knows, and every model is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ThinkingBlock {
    /// Whether a provider takes it back.
    pub fn is_signed(&self) -> bool {
        self.signature.as_deref().is_some_and(|s| !s.is_empty()) || self.data.is_some()
    }
}

/// What a model call used, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones among them.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_input_tokens: u64,
    /// Tokens of the answer, thinking among them.
    pub output_tokens: u64,
    /// Whether the provider reported it (else it was counted here).
    pub reported: bool,
    /// How many model calls this is the sum of.
    pub model_calls: u32,
}

impl Usage {
    /// Whether it is that of no call.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Both together; reported only if both were.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reported: (self.reported || self.model_calls == 0) && (other.reported || other.model_calls == 0),
            model_calls: self.model_calls.saturating_add(other.model_calls),
        }
    }
}

/// Why a model, or a turn, came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is whole.
    Stop,
    /// The model asks for tools.
    ToolCalls,
    /// Cut at the output limit.
    Length,
    /// Held back by the provider's filter.
    ContentFilter,
    /// The turn reached its bound of rounds.
    MaxRounds,
}
