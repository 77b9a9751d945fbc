//! Chat requests, validated as a real endpoint validates them.

use serde_json::Value;

use crate::images;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// True if the stream ends with the usage.
    pub(crate) include_usage: bool,
    /// Messages, oldest first.
    pub(crate) messages: Vec<ChatMessage>,
    /// Names of the offered tools.
    pub(crate) tools: Vec<String>,
    pub(crate) response_format: Option<RequestedFormat>,
    /// Size of the request without the data of images, in bytes.
    pub(crate) bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    /// Result of a tool.
    Tool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChatMessage {
    pub(crate) role: Role,
    /// Text. Parts are joined by newlines.
    pub(crate) text: String,
    /// SHA-256 digests of the images of a user message, in hexadecimal notation.
    pub(crate) images: Vec<String>,
    /// Size of the data of the images in the request, in bytes.
    pub(crate) image_bytes: usize,
    /// Tool calls of an assistant message.
    pub(crate) calls: Vec<RequestedCall>,
    /// Id of the call that a tool result answers.
    pub(crate) tool_call_id: Option<String>,
}

/// A tool call in the history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// `response_format` of type `json_schema`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedFormat {
    pub(crate) name: String,
    pub(crate) schema: Value,
}

impl ChatRequest {
    /// Parses a request. The error contains the invalid field.
    pub(crate) fn parse(body: &Value, bytes: usize) -> Result<Self, String> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let messages = body.get("messages").and_then(Value::as_array).ok_or("messages: must be a list")?;
        if messages.is_empty() {
            return Err("messages: must not be empty".to_owned());
        }
        let messages = messages
            .iter()
            .enumerate()
            .map(|(index, message)| parse_message(message).map_err(|problem| format!("messages[{index}].{problem}")))
            .collect::<Result<Vec<_>, _>>()?;
        let image_bytes: usize = messages.iter().map(|message| message.image_bytes).sum();
        let request = Self {
            model: text(body.get("model")).ok_or("model: must be a string")?,
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            include_usage: body.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false),
            messages,
            tools: parse_tools(body.get("tools"))?,
            response_format: parse_format(body.get("response_format"))?,
            bytes: bytes.saturating_sub(image_bytes),
        };
        request.check_history()?;
        Ok(request)
    }

    /// Checks that each call is answered directly after its message and each result answers a call, as real endpoints
    /// do.
    fn check_history(&self) -> Result<(), String> {
        let mut open: Vec<&str> = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            if message.role == Role::Tool {
                let id = message.tool_call_id.as_deref().ok_or(format!("messages[{index}].tool_call_id: missing"))?;
                let position = open.iter().position(|call| *call == id).ok_or(format!(
                    "messages[{index}]: a message of role 'tool' must answer a call of the assistant message before it"
                ))?;
                open.remove(position);
                continue;
            }
            if let Some(id) = open.first() {
                return Err(format!(
                    "messages[{index}]: an assistant message with 'tool_calls' must be followed by tool messages; no result for call {id}"
                ));
            }
            open.extend(message.calls.iter().map(|call| call.id.as_str()));
        }
        match open.first() {
            Some(id) => Err(format!("messages: no result for call {id}")),
            None => Ok(()),
        }
    }

    /// Returns all system messages, joined.
    pub(crate) fn system(&self) -> String {
        let parts: Vec<_> = self.messages.iter().filter(|m| m.role == Role::System).map(|m| m.text.as_str()).collect();
        parts.join("\n")
    }

    /// Returns the last user message.
    pub(crate) fn user(&self) -> &str {
        self.messages.iter().rev().find(|m| m.role == Role::User).map_or("", |m| m.text.as_str())
    }

    /// Returns the digests of the images of the last user message.
    pub(crate) fn images(&self) -> &[String] {
        self.messages.iter().rev().find(|m| m.role == Role::User).map(|m| m.images.as_slice()).unwrap_or_default()
    }

    /// Returns the number of this model call since the last user message, from 1.
    pub(crate) fn round(&self) -> usize {
        1 + self
            .messages
            .iter()
            .rev()
            .take_while(|m| m.role != Role::User)
            .filter(|m| m.role == Role::Assistant)
            .count()
    }

    /// Returns the tool calls in the messages from index `from` on with the contents of their results, oldest first.
    pub(crate) fn answered_calls(&self, from: usize) -> Vec<(&RequestedCall, &str)> {
        let mut calls: &[RequestedCall] = &[];
        let mut found = Vec::new();
        for message in self.messages.iter().skip(from) {
            if message.role == Role::Assistant {
                calls = &message.calls;
            }
            let call = calls.iter().find(|call| Some(&call.id) == message.tool_call_id.as_ref());
            found.extend(call.map(|call| (call, message.text.as_str())));
        }
        found
    }

    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered == tool)
    }
}

fn parse_message(message: &Value) -> Result<ChatMessage, String> {
    let role = match message.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        other => return Err(format!("role: unknown role {other:?}")),
    };
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) if !calls.is_empty() => calls
            .iter()
            .map(parse_call)
            .collect::<Option<Vec<_>>>()
            .ok_or("tool_calls: id, function.name and function.arguments must be strings")?,
        Some(_) => return Err("tool_calls: must be a list that is not empty".to_owned()),
    };
    let (mut images, mut image_bytes) = (Vec::new(), 0);
    let text = match message.get("content") {
        None | Some(Value::Null) if role == Role::Assistant => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
            (images, image_bytes) = images::parse(parts)?;
            texts.join("\n")
        }
        _ => return Err("content: must be a string or a list of parts".to_owned()),
    };
    let tool_call_id = message.get("tool_call_id").and_then(Value::as_str).map(str::to_owned);
    if role != Role::User && !images.is_empty() {
        return Err("content: only a user message may have images".to_owned());
    }
    Ok(ChatMessage { role, text, images, image_bytes, calls, tool_call_id })
}

fn parse_call(call: &Value) -> Option<RequestedCall> {
    Some(RequestedCall {
        id: call.get("id")?.as_str()?.to_owned(),
        name: call.pointer("/function/name")?.as_str()?.to_owned(),
        arguments: call.pointer("/function/arguments")?.as_str()?.to_owned(),
    })
}

fn parse_tools(tools: Option<&Value>) -> Result<Vec<String>, String> {
    let tools = match tools {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err("tools: must be a list".to_owned()),
    };
    tools
        .iter()
        .enumerate()
        .map(|(index, tool)| {
            let name = tool.pointer("/function/name").and_then(Value::as_str);
            let name = name.filter(|name| is_name(name)).ok_or(format!("tools[{index}].function.name: invalid"))?;
            Ok(name.to_owned())
        })
        .collect()
}

fn parse_format(format: Option<&Value>) -> Result<Option<RequestedFormat>, String> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    match format.get("type").and_then(Value::as_str) {
        Some("text" | "json_object") => Ok(None),
        Some("json_schema") => {
            let name = format.pointer("/json_schema/name").and_then(Value::as_str);
            let name = name.filter(|name| is_name(name)).ok_or("response_format.json_schema.name: invalid")?;
            let schema = format.pointer("/json_schema/schema").cloned().unwrap_or_default();
            Ok(Some(RequestedFormat { name: name.to_owned(), schema }))
        }
        _ => Err("response_format.type: unknown".to_owned()),
    }
}

/// Returns true for a valid name of a function or format: `[A-Za-z0-9_-]{1,64}`.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(messages: Value) -> Result<ChatRequest, String> {
        ChatRequest::parse(&json!({"model": "m", "messages": messages}), 0)
    }

    fn call(id: &str, name: &str) -> Value {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
    }

    #[test]
    fn a_history_without_a_result_for_a_call_is_refused() {
        let calls = json!({"role": "assistant", "tool_calls": [call("a", "x"), call("b", "y")]});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "{}"});
        let user = json!({"role": "user", "content": "hi"});
        assert!(parse(json!([user, calls, result("a"), result("b")])).is_ok());
        assert!(parse(json!([user, calls, result("a")])).unwrap_err().contains("no result for call b"));
        assert!(parse(json!([user, calls, result("a"), user])).unwrap_err().contains("no result for call b"));
        assert!(parse(json!([user, result("a")])).unwrap_err().contains("must answer a call"));
    }

    #[test]
    fn rounds_and_results_are_derived_from_the_history() {
        let request = parse(json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": null, "tool_calls": [call("a", "x")]},
            {"role": "tool", "tool_call_id": "a", "content": "{\"n\":1}"},
        ]))
        .unwrap();
        assert_eq!((request.round(), request.user(), request.system().as_str()), (2, "go", "be brief"));
        let [(call, content)] = request.answered_calls(0)[..] else { panic!("one call") };
        assert_eq!((call.name.as_str(), content), ("x", "{\"n\":1}"));
    }

    #[test]
    fn an_error_contains_the_invalid_field() {
        assert_eq!(parse(json!([])).unwrap_err(), "messages: must not be empty");
        assert!(parse(json!([{"role": "robot", "content": ""}])).unwrap_err().starts_with("messages[0].role"));
        assert!(parse(json!([{"role": "user"}])).unwrap_err().starts_with("messages[0].content"));
    }
}
