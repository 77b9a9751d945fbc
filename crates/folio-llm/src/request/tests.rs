use serde_json::{Value, json};

use super::*;
use crate::model::ResponseFormat;
use crate::tools::{ToolDefinition, Tools};

fn request(messages: Vec<Message>) -> ModelRequest {
    let request = ModelRequest::new(folio_types::OrgId::derive(&["acme"]), "m", messages);
    ModelRequest { system: "be brief".into(), thinking: true, ..request }
}

fn thinker() -> ModelOptions {
    ModelOptions { thinking: true, max_output_tokens: 16_000, ..ModelOptions::default() }
}

fn serialized(request: &ModelRequest, model: &ModelOptions) -> Value {
    serialized_for("vendor/m", request, model)
}

fn serialized_for(upstream: &str, request: &ModelRequest, model: &ModelOptions) -> Value {
    let body = Body {
        request,
        model,
        upstream,
        output_limit_field: OutputLimitField::MaxTokens,
        stream: true,
        stream_usage: true,
        temperature: request.temperature,
    };
    serde_json::from_slice(&body.write().unwrap()).unwrap()
}

fn assistant(thinking: Vec<ThinkingBlock>, with_call: bool) -> Message {
    let call = ToolCall { id: "call_1".into(), name: "get_tag".into(), arguments: json!({"tag_id": "é\"x"}) };
    Message::Assistant { text: String::new(), thinking, calls: if with_call { vec![call] } else { vec![] } }
}

fn block(signature: Option<&str>) -> ThinkingBlock {
    ThinkingBlock { text: "hm".into(), signature: signature.map(str::to_owned), ..ThinkingBlock::default() }
}

#[test]
fn a_conversation_is_encoded_as_the_protocol_requires() {
    let mut request = request(vec![
        Message::user("hello"),
        assistant(vec![], true),
        Message::Tool { call: "call_1".into(), content: "{}".into() },
    ]);
    request.tools = Tools::from(vec![ToolDefinition {
        name: "get_tag".into(),
        description: "Gets a tag.".into(),
        parameters: json!({"type": "object"}),
    }]);
    request.response_format = Some(ResponseFormat { name: "f".into(), schema: json!({"a": 1}), strict: true });
    request.max_output_tokens = Some(100);
    assert_eq!(
        serialized(&request, &ModelOptions::default()),
        json!({
            "model": "vendor/m",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": null, "tool_calls": [{
                    "id": "call_1", "type": "function",
                    "function": {"name": "get_tag", "arguments": "{\"tag_id\":\"é\\\"x\"}"}
                }]},
                {"role": "tool", "tool_call_id": "call_1", "content": "{}"}
            ],
            "tools": [{"type": "function", "function": {
                "name": "get_tag", "description": "Gets a tag.", "parameters": {"type": "object"}
            }}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": {"a": 1}, "strict": true}},
            "max_tokens": 100,
            "stream": true,
            "stream_options": {"include_usage": true}
        })
    );
}

#[test]
fn images_follow_the_text_of_their_message_if_the_model_has_vision() {
    let image = crate::images::tests::image;
    let (sent, lost) = (image("sent"), image("lost"));
    let message = Message::User { text: "look".into(), images: vec![sent.clone(), lost] };
    let mut request = request(vec![message]);
    request.images.insert(sent.id, bytes::Bytes::from_static(&[255, 216, 255]));
    let sees = ModelOptions { vision: true, ..ModelOptions::default() };
    let body = serialized(&request, &sees);
    assert_eq!(
        body["messages"][1],
        json!({"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}},
            {"type": "text", "text": "[Image 2 of this message is not available.]"},
        ]})
    );
    let blind = serialized(&request, &ModelOptions::default());
    let text = "look\n\n[The images of this message (2) were not sent: the model accepts no images.]";
    assert_eq!(blind["messages"][1], json!({"role": "user", "content": text}));
}

#[test]
fn the_state_follows_the_conversation_unless_the_model_refuses_a_second_system_message() {
    let mut request = request(vec![Message::user("hello")]);
    let system = |text: &str| json!({"role": "system", "content": text});
    let user = json!({"role": "user", "content": "hello"});
    let sent = |upstream: &str, request: &ModelRequest| {
        serialized_for(upstream, request, &ModelOptions::default())["messages"].clone()
    };
    assert_eq!(sent("m", &request), json!([system("be brief"), user]));
    request.state = "schema: none".into();
    for upstream in ["gpt-5", "Qwen2.5-Coder-1.5B", "claude-sonnet-4-5"] {
        assert_eq!(sent(upstream, &request), json!([system("be brief"), user, system("schema: none")]), "{upstream}");
    }
    for upstream in ["mistral-large-latest", "open-mixtral-8x7b", "google/Gemma-3-4b-it", "Ministral-8B"] {
        assert_eq!(sent(upstream, &request), json!([system("be brief\n\nschema: none"), user]), "{upstream}");
    }
    request.system.clear();
    assert_eq!(sent("gemma3", &request), json!([system("schema: none"), user]));
}

#[test]
fn the_output_limit_is_at_most_that_of_the_model() {
    let mut request = request(vec![]);
    request.max_output_tokens = Some(u32::MAX);
    assert_eq!(serialized(&request, &ModelOptions::default())["max_tokens"], 4_096);
}

#[test]
fn a_temperature_is_sent_without_thinking_only() {
    let mut request = request(vec![]);
    assert!(serialized(&request, &ModelOptions::default()).get("temperature").is_none());
    request.temperature = Some(folio_types::Temperature::new("temperature", 0.7).unwrap());
    assert_eq!(serialized(&request, &ModelOptions::default())["temperature"], 0.7);
    assert!(serialized(&request, &thinker()).get("temperature").is_none());
}

#[test]
fn only_signed_thinking_is_sent_back_and_only_to_models_that_think() {
    let redacted = ThinkingBlock { data: Some("xyz".into()), ..ThinkingBlock::default() };
    let request = request(vec![assistant(vec![block(None), block(Some("sig")), redacted, block(Some(""))], true)]);
    let body = serialized(&request, &thinker());
    assert_eq!(
        body["messages"][1]["thinking_blocks"],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xyz"}
        ])
    );
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 4_096}));

    let plain = serialized(&request, &ModelOptions::default());
    assert!(plain.get("thinking").is_none() && plain["messages"][1].get("thinking_blocks").is_none());
}

#[test]
fn thinking_is_omitted_after_calls_without_signed_blocks() {
    let is_requested = |messages| serialized(&request(messages), &thinker()).get("thinking").is_some();
    assert!(is_requested(vec![Message::user("a")]));
    assert!(is_requested(vec![assistant(vec![], false)]));
    assert!(!is_requested(vec![assistant(vec![block(None)], true)]));
    assert!(!is_requested(vec![assistant(vec![], true), Message::Tool { call: "call_1".into(), content: "x".into() }]));
    assert!(is_requested(vec![assistant(vec![], true), assistant(vec![block(Some("s"))], true)]));

    let mut off = request(vec![]);
    off.thinking = false;
    assert!(serialized(&off, &thinker()).get("thinking").is_none());
    let small = ModelOptions { max_output_tokens: 1_500, ..thinker() };
    assert!(
        serialized(&request(vec![]), &small).get("thinking").is_none(),
        "the budget leaves too few tokens for the answer"
    );
}
