//! Messages of a conversation, in the form that is stored and sent to models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::MessageImageId;

/// A message of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum Message {
    User {
        text: String,
        /// Images that follow the text, at most [`MESSAGE_IMAGES_MAX`](crate::limits::MESSAGE_IMAGES_MAX).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<MessageImage>,
    },
    /// The model's response in one round.
    Assistant {
        /// May be empty if there are calls.
        text: String,
        /// Thinking that precedes the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        thinking: Vec<ThinkingBlock>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// The result of a tool call.
    Tool {
        /// The `id` of the call in the preceding assistant message.
        call: String,
        content: String,
    },
}

impl Message {
    /// Creates a message of a user without images.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }

    /// Returns the images of the message.
    pub fn images(&self) -> &[MessageImage] {
        match self {
            Self::User { images, .. } => images,
            Self::Assistant { .. } | Self::Tool { .. } => &[],
        }
    }
}

/// A reference to an image of a message. The bytes are stored once for all threads with the image.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MessageImage {
    pub id: MessageImageId,
    /// Media type of the stored bytes, such as `image/jpeg`.
    pub media_type: String,
    /// Size in pixels, 1 to [`MODEL_IMAGE_PIXELS`](crate::limits::MODEL_IMAGE_PIXELS).
    pub width: u32,
    pub height: u32,
    /// Number of stored bytes.
    pub bytes: u64,
}

/// A tool call as the model's history contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// `call_<turn>_<round>_<index>`. Unique in the thread, and limited to characters that every provider accepts.
    pub id: String,
    pub name: String,
    /// Arguments, an object. Empty if the model's arguments were not valid JSON.
    pub arguments: Value,
}

/// A block of a model's thinking. Only signed blocks are sent to the model again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThinkingBlock {
    /// Thinking as text. Empty if the provider returned only data.
    pub text: String,
    /// The provider's signature of the block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Encrypted data that the provider returned instead of text (redacted thinking).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Folio's name of the model that produced the block. Only this model receives it again. None: unknown; every model
    /// receives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl ThinkingBlock {
    /// Returns true if the provider accepts the block in a request.
    pub fn is_signed(&self) -> bool {
        self.signature.as_deref().is_some_and(|s| !s.is_empty()) || self.data.is_some()
    }
}

/// Token usage of model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Input tokens that the provider read from its cache.
    pub cached_input_tokens: u64,
    /// Output tokens, including thinking.
    pub output_tokens: u64,
    /// True if the providers reported the usage of every call in this sum. False if Folio counted the tokens of a call.
    pub reported: bool,
    /// Number of model calls in this sum.
    pub model_calls: u32,
    /// Credits that the meter charges for the calls in this sum. 0: unknown (an old value, or the usage of a provider).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub credits: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(credits: &u64) -> bool {
    *credits == 0
}

impl Usage {
    /// Returns true if the sum covers no model call.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the sum. The sum is `reported` only if both operands are; an operand without calls does not count.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_input_tokens: self.cached_input_tokens.saturating_add(other.cached_input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reported: match (self.model_calls, other.model_calls) {
                (0, _) => other.reported,
                (_, 0) => self.reported,
                _ => self.reported && other.reported,
            },
            model_calls: self.model_calls.saturating_add(other.model_calls),
            credits: self.credits.saturating_add(other.credits),
        }
    }
}

/// Reason for the end of a model call or turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The response is complete.
    Stop,
    /// The model requests tool calls.
    ToolCalls,
    /// The response reached the limit of output tokens.
    Length,
    /// The provider's content filter stopped the response.
    ContentFilter,
    /// The turn reached its maximum of rounds.
    MaxRounds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_signed_by_a_signature_or_data() {
        let block = |signature: Option<&str>, data: Option<&str>| ThinkingBlock {
            signature: signature.map(str::to_owned),
            data: data.map(str::to_owned),
            ..ThinkingBlock::default()
        };
        assert!(block(Some("s"), None).is_signed() && block(None, Some("d")).is_signed());
        assert!(!block(None, None).is_signed() && !block(Some(""), None).is_signed());
    }

    #[test]
    fn a_stored_usage_without_credits_is_readable_and_stays_as_it_is() {
        let stored = r#"{"input_tokens":8,"cached_input_tokens":4,"output_tokens":2,"reported":true,"model_calls":1}"#;
        let usage: Usage = serde_json::from_str(stored).unwrap();
        assert_eq!((usage.credits, serde_json::to_string(&usage).unwrap().as_str()), (0, stored));
        let charged = Usage { credits: 5, ..usage };
        assert_eq!(serde_json::from_str::<Usage>(&serde_json::to_string(&charged).unwrap()).unwrap(), charged);
    }

    #[test]
    fn usages_are_added_without_overflow() {
        let usage = |tokens, reported, model_calls| Usage {
            input_tokens: tokens,
            cached_input_tokens: tokens / 2,
            output_tokens: tokens / 4,
            reported,
            model_calls,
            credits: tokens / 8,
        };
        let sum = Usage {
            input_tokens: 24,
            cached_input_tokens: 12,
            output_tokens: 6,
            reported: true,
            model_calls: 3,
            credits: 3,
        };
        assert_eq!(usage(8, true, 1).plus(usage(16, true, 2)), sum);
        assert_eq!(usage(u64::MAX, true, 1).plus(usage(u64::MAX, true, 1)).input_tokens, u64::MAX);
        assert!(Usage::default().is_empty() && !sum.is_empty());
        let charged = Usage { credits: 2, ..Usage::default() };
        assert_eq!(usage(8, true, 1).plus(charged), Usage { credits: 3, ..usage(8, true, 1) }, "a charge is no call");
        for (left, right, reported) in [
            (usage(1, true, 1), usage(1, false, 1), false),
            (usage(1, false, 1), usage(1, true, 1), false),
            (usage(1, true, 1), Usage::default(), true),
            (Usage::default(), usage(1, true, 1), true),
            (usage(1, false, 1), Usage::default(), false),
        ] {
            assert_eq!(left.plus(right).reported, reported, "{left:?} {right:?}");
        }
    }
}
