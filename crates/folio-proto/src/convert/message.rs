//! Conversions of messages, thinking and usage.

use folio_types::message::{FinishReason, Message, MessageImage, ThinkingBlock, ToolCall, Usage};
use folio_types::{Error, Result, limits};

use crate::{fields, json, v1};

impl From<&Message> for v1::Message {
    /// Leaves `count` and `turn_id` unset.
    fn from(message: &Message) -> Self {
        use v1::message::Kind;
        let kind = match message {
            Message::User { text, images } => {
                Kind::User(v1::UserMessage { text: text.clone(), images: images.iter().map(Into::into).collect() })
            }
            Message::Assistant { text, thinking, calls } => Kind::Assistant(v1::AssistantMessage {
                text: text.clone(),
                thinking: thinking.iter().map(Into::into).collect(),
                calls: calls.iter().map(Into::into).collect(),
            }),
            Message::Tool { call, content } => {
                Kind::Tool(v1::ToolMessage { call_id: call.clone(), content: content.clone() })
            }
        };
        Self { count: 0, turn_id: String::new(), kind: Some(kind) }
    }
}

impl TryFrom<v1::Message> for Message {
    type Error = Error;
    fn try_from(message: v1::Message) -> Result<Self> {
        use v1::message::Kind;
        Ok(match fields::required("kind", message.kind)? {
            Kind::User(user) => Self::User {
                text: user.text,
                images: user.images.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            },
            Kind::Assistant(assistant) => Self::Assistant {
                text: assistant.text,
                thinking: assistant.thinking.into_iter().map(Into::into).collect(),
                calls: assistant.calls.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
            },
            Kind::Tool(tool) => Self::Tool { call: tool.call_id, content: tool.content },
        })
    }
}

impl From<&MessageImage> for v1::MessageImage {
    fn from(image: &MessageImage) -> Self {
        Self {
            image_id: image.id.to_string(),
            media_type: image.media_type.clone(),
            width: image.width,
            height: image.height,
            size_bytes: image.bytes,
        }
    }
}

impl TryFrom<v1::MessageImage> for MessageImage {
    type Error = Error;
    fn try_from(image: v1::MessageImage) -> Result<Self> {
        Ok(Self {
            id: fields::id("image_id", &image.image_id)?,
            media_type: image.media_type,
            width: image.width,
            height: image.height,
            bytes: image.size_bytes,
        })
    }
}

impl From<&ToolCall> for v1::MessageCall {
    fn from(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: call.name.clone(), arguments_json: json::text(&call.arguments) }
    }
}

impl TryFrom<v1::MessageCall> for ToolCall {
    type Error = Error;
    fn try_from(call: v1::MessageCall) -> Result<Self> {
        let arguments = json::parse_object("arguments_json", &call.arguments_json, limits::ARGUMENTS_BYTES)?;
        Ok(Self { id: call.id, name: call.name, arguments })
    }
}

impl From<&ThinkingBlock> for v1::ThinkingBlock {
    fn from(block: &ThinkingBlock) -> Self {
        Self { text: block.text.clone(), signature: block.signature.clone(), data: block.data.clone() }
    }
}

impl From<v1::ThinkingBlock> for ThinkingBlock {
    fn from(block: v1::ThinkingBlock) -> Self {
        Self { text: block.text, signature: block.signature, data: block.data, model: None }
    }
}

same_fields!(Usage = v1::Usage { input_tokens, cached_input_tokens, output_tokens, reported, model_calls, credits });

same_variants!(FinishReason = v1::FinishReason of "finish_reason": Stop, ToolCalls, Length, ContentFilter, MaxRounds);
