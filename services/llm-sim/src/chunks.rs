//! The wire form of a response: chunks of a stream, or one body.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Call, ThinkingForm, UsageCounts};

/// Fields that every chunk of a response contains.
#[derive(Debug, Clone)]
pub(crate) struct Frame<'a> {
    pub(crate) id: &'a str,
    pub(crate) model: &'a str,
    pub(crate) chunk_bytes: usize,
    pub(crate) include_usage: bool,
    pub(crate) prompt_bytes: usize,
}

/// Encodes a server-sent event.
fn event(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

pub(crate) const DONE: Bytes = Bytes::from_static(b"data: [DONE]\n\n");

impl Frame<'_> {
    fn chunk(&self, delta: Value, finish: Option<&str>) -> Bytes {
        event(&json!({
            "id": self.id, "object": "chat.completion.chunk", "created": 1_790_000_000, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }))
    }

    /// Returns the chunks of a response without usage and `[DONE]`, and the number of chunks before the finish reason.
    /// If `finish` is false, the finish reason is omitted.
    pub(crate) fn stream(&self, answer: &Answer, finish: bool) -> (Vec<Bytes>, usize) {
        let mut chunks = vec![self.chunk(json!({"role": "assistant", "content": ""}), None)];
        self.thinking(answer, &mut chunks);
        for segment in segments(&answer.text, self.chunk_bytes) {
            chunks.push(self.chunk(json!({"content": segment}), None));
        }
        for (index, call) in answer.calls.iter().enumerate() {
            self.call(index, call, &mut chunks);
        }
        let before_finish = chunks.len();
        if finish {
            chunks.push(self.chunk(json!({}), Some(answer.finish())));
        }
        (chunks, before_finish)
    }

    /// Returns the end of a stream: the usage if it was requested, and `[DONE]`.
    pub(crate) fn tail(&self, answer: &Answer) -> Vec<Bytes> {
        let mut chunks = Vec::with_capacity(2);
        if let (true, Some(usage)) = (self.include_usage, answer.usage_for(self.prompt_bytes)) {
            chunks.push(event(&json!({
                "id": self.id, "object": "chat.completion.chunk", "created": 1_790_000_000, "model": self.model,
                "choices": [], "usage": usage_value(usage),
            })));
        }
        chunks.push(DONE);
        chunks
    }

    fn thinking(&self, answer: &Answer, chunks: &mut Vec<Bytes>) {
        let blocks = answer.thinking_form == ThinkingForm::Blocks;
        for thinking in &answer.thinking {
            for segment in segments(&thinking.text, self.chunk_bytes) {
                let mut delta = json!({"reasoning_content": segment});
                if let (true, Value::Object(delta)) = (blocks, &mut delta) {
                    delta.insert("thinking_blocks".to_owned(), json!([{"type": "thinking", "thinking": segment}]));
                }
                chunks.push(self.chunk(delta, None));
            }
            if !blocks {
                continue;
            }
            if let Some(data) = &thinking.data {
                let block = json!([{"type": "redacted_thinking", "data": data}]);
                chunks.push(self.chunk(json!({"thinking_blocks": block}), None));
            }
            if let Some(signature) = &thinking.signature {
                let block = json!([{"type": "thinking", "thinking": "", "signature": signature}]);
                chunks.push(self.chunk(json!({"thinking_blocks": block}), None));
            }
        }
    }

    fn call(&self, index: usize, call: &Call, chunks: &mut Vec<Bytes>) {
        let head = json!({
            "index": index, "id": call_id(call, index), "type": "function",
            "function": {"name": call.name, "arguments": ""},
        });
        chunks.push(self.chunk(json!({"tool_calls": [head]}), None));
        for segment in segments(&call.arguments_text(), self.chunk_bytes) {
            let more = json!({"index": index, "function": {"arguments": segment}});
            chunks.push(self.chunk(json!({"tool_calls": [more]}), None));
        }
    }

    /// Returns the response as one body.
    pub(crate) fn complete_body(&self, answer: &Answer, finish: bool) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        let content =
            if answer.text.is_empty() && !answer.calls.is_empty() { Value::Null } else { answer.text.clone().into() };
        message.insert("content".to_owned(), content);
        if !answer.thinking.is_empty() {
            let texts: Vec<_> = answer.thinking.iter().map(|block| block.text.as_str()).collect();
            message.insert("reasoning_content".to_owned(), texts.concat().into());
            if answer.thinking_form == ThinkingForm::Blocks {
                message.insert("thinking_blocks".to_owned(), thinking_blocks(answer));
            }
        }
        if !answer.calls.is_empty() {
            let calls = answer.calls.iter().enumerate().map(|(index, call)| {
                let function = json!({"name": call.name, "arguments": call.arguments_text()});
                json!({"id": call_id(call, index), "type": "function", "function": function})
            });
            message.insert("tool_calls".to_owned(), calls.collect());
        }
        let finish = finish.then(|| answer.finish());
        let mut body = json!({
            "id": self.id, "object": "chat.completion", "created": 1_790_000_000, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        });
        if let (Value::Object(body), Some(usage)) = (&mut body, answer.usage_for(self.prompt_bytes)) {
            body.insert("usage".to_owned(), usage_value(usage));
        }
        body
    }
}

fn call_id(call: &Call, index: usize) -> String {
    call.id.clone().unwrap_or_else(|| format!("call_{index}"))
}

fn thinking_blocks(answer: &Answer) -> Value {
    let block = |thinking: &crate::answer::Thinking| match &thinking.data {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": thinking.text, "signature": thinking.signature}),
    };
    answer.thinking.iter().map(block).collect()
}

fn usage_value(usage: UsageCounts) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens.saturating_add(usage.completion_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// Splits a text into segments of about this number of bytes, at character boundaries.
fn segments(text: &str, bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = bytes.clamp(1, rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (segment, after) = rest.split_at(end);
        rest = after;
        Some(segment)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_end_at_character_boundaries() {
        let text = "aäß€😀b";
        for bytes in 1..8 {
            let cut: Vec<_> = segments(text, bytes).collect();
            assert_eq!(cut.concat(), text);
        }
        assert_eq!(segments("abcdef", 4).collect::<Vec<_>>(), ["abcd", "ef"]);
    }
}
