//! The JSON that a chat-completions endpoint returns: a chunk of a stream, or a complete answer. Texts without escapes
//! are borrowed from the input.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::Value;

/// Text that is borrowed from the input if possible (serde never borrows a `Cow` in an `Option`).
#[derive(Debug, Default)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}

/// Returns the text. None: the empty text.
pub(super) fn text<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", |text| &text.0)
}

/// An event of a stream, or (with `message` in its choices) a complete answer.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    pub(super) usage: Option<Value>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(borrow, default, alias = "message")]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
}

/// Delta of the message, or the message of a complete answer.
#[derive(Debug, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking_blocks: Option<Vec<ThinkingBlock<'a>>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<ToolCallDelta<'a>>>,
}

/// A thinking block in LiteLLM's format (`thinking` or `redacted_thinking`).
#[derive(Debug, Deserialize)]
pub(super) struct ThinkingBlock<'a> {
    #[serde(borrow, default)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolCallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<u32>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<Text<'a>>,
}
