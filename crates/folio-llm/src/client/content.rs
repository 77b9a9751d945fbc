//! Messages of a model call in the format of OpenTelemetry's semantic conventions, for events with content.

use folio_types::message::{FinishReason, Message, MessageImage};
use serde_json::{Value, json};

use crate::model::ModelReply;

/// `state`: the system message after the conversation. Empty: none.
pub(super) fn instructions(system: &str, state: &str) -> Value {
    [system, state].into_iter().filter(|content| !content.is_empty()).map(text).collect()
}

pub(super) fn input(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

pub(super) fn output(reply: &ModelReply) -> Value {
    let thinking = reply.thinking.iter().map(|block| reasoning(&block.text));
    let content = (!reply.text.is_empty()).then(|| text(&reply.text));
    // Arguments that are not JSON are recorded as text.
    let arguments = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let calls =
        reply.calls.iter().map(|tool_call| call(&tool_call.id, &tool_call.name, &arguments(&tool_call.arguments)));
    let parts: Value = thinking.chain(content).chain(calls).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": reply.finish.map_or("error", finish)}])
}

/// Returns the name of a finish reason in the conventions.
pub(super) fn finish(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool_call",
        FinishReason::Length | FinishReason::MaxRounds => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}

fn message(message: &Message) -> Value {
    match message {
        Message::User { text: content, images } => {
            // The event contains no bytes of images.
            let image =
                |image: &MessageImage| json!({"type": "blob", "modality": "image", "mime_type": image.media_type});
            let parts: Value = std::iter::once(text(content)).chain(images.iter().map(image)).collect();
            json!({"role": "user", "parts": parts})
        }
        Message::Assistant { text: content, thinking, calls } => {
            let thinking = thinking.iter().map(|block| reasoning(&block.text));
            let content = (!content.is_empty()).then(|| text(content));
            let calls = calls.iter().map(|tool_call| call(&tool_call.id, &tool_call.name, &tool_call.arguments));
            let parts: Value = thinking.chain(content).chain(calls).collect();
            json!({"role": "assistant", "parts": parts})
        }
        Message::Tool { call, content } => {
            let part = json!({"type": "tool_call_response", "id": call, "response": content});
            json!({"role": "tool", "parts": [part]})
        }
    }
}

fn text(content: &str) -> Value {
    json!({"type": "text", "content": content})
}

fn reasoning(content: &str) -> Value {
    json!({"type": "reasoning", "content": content})
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})
}

#[cfg(test)]
mod tests {
    use folio_types::message::{ThinkingBlock, ToolCall};

    use super::*;
    use crate::model::RawToolCall;

    #[test]
    fn messages_are_recorded_as_roles_and_parts() {
        let thinking = vec![ThinkingBlock { text: "hm".into(), ..ThinkingBlock::default() }];
        let tool_call = ToolCall { id: "c1".into(), name: "get".into(), arguments: json!({"page": 1}) };
        let messages = [
            Message::user("read"),
            Message::Assistant { text: String::new(), thinking: thinking.clone(), calls: vec![tool_call] },
            Message::Tool { call: "c1".into(), content: "a page".into() },
        ];
        let expected = json!([
            {"role": "user", "parts": [{"type": "text", "content": "read"}]},
            {"role": "assistant", "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c1", "name": "get", "arguments": {"page": 1}},
            ]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "a page"}]},
        ]);
        assert_eq!(input(&messages), expected);
        let calls = vec![RawToolCall { id: "c2".into(), name: "get".into(), arguments: "{no json".into() }];
        let finish = Some(FinishReason::ToolCalls);
        let reply = ModelReply { text: "so".into(), thinking, calls, finish, ..ModelReply::default() };
        let parts = json!([
            {"type": "reasoning", "content": "hm"},
            {"type": "text", "content": "so"},
            {"type": "tool_call", "id": "c2", "name": "get", "arguments": "{no json"},
        ]);
        assert_eq!(output(&reply), json!([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}]));
    }
}
