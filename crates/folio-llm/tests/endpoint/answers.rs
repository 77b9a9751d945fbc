//! Successful answers.

use folio_llm::{ModelError, Models, RawToolCall, ResponseFormat, ToolDefinition, Tools};
use folio_types::message::{FinishReason, ThinkingBlock, ToolCall};
use llm_sim::Pacing;
use serde_json::json;

use super::*;

const AGENT: &str = r#"
rules:
  - when: {round: 1}
    answer:
      thinking: [{text: "I should look.", signature: sig-1}, {data: opaque}]
      text: Let me look.
      calls:
        - {id: c1, name: get_ocr_text, arguments: {page_num: 1}}
        - {id: c2, name: list_tags, raw_arguments: '{"skip": '}
      usage: {prompt_tokens: 100, cached_tokens: 40, completion_tokens: 9}
  - when: {round: 2}
    answer: {text: "It is 5.", no_usage: true}
"#;

fn tools() -> Tools {
    Tools::from(vec![ToolDefinition {
        name: "get_ocr_text".into(),
        description: "Gets the text.".into(),
        parameters: json!({"type": "object", "properties": {"page_num": {"type": "integer"}}}),
    }])
}

fn thinking() -> Vec<ThinkingBlock> {
    vec![
        ThinkingBlock { text: "I should look.".into(), signature: Some("sig-1".into()), ..ThinkingBlock::default() },
        ThinkingBlock { data: Some("opaque".into()), ..ThinkingBlock::default() },
    ]
}

fn check_first(reply: &ModelReply) {
    assert_eq!((reply.text.as_str(), reply.finish), ("Let me look.", Some(FinishReason::ToolCalls)));
    assert_eq!(reply.thinking, thinking());
    let calls = [("c1", "get_ocr_text", r#"{"page_num":1}"#), ("c2", "list_tags", "{\"skip\": ")];
    let calls = calls.map(|(id, name, arguments)| RawToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    });
    assert_eq!(reply.calls, calls);
    let usage = reply.usage;
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (100, 40, 9));
    assert!(usage.reported && usage.model_calls == 1);
}

#[tokio::test]
async fn an_agents_rounds_are_the_same_with_and_without_streaming() {
    let pacing = Pacing { tokens_per_second: 2_000.0, chunk_tokens: 1 };
    let sim = LlmSim::builder().script(Script::parse(AGENT).unwrap()).pacing(pacing).start().await.unwrap();
    let (models, _) = client(&sim.url(), |options| {
        let model = options.providers.get_mut("openai").unwrap().models.get_mut("scripted").unwrap();
        model.thinking = true;
    });
    let mut first = request();
    first.tools = tools();
    first.thinking = true;

    let received = receive(&mut models.stream(first.clone()).await.unwrap()).await;
    let reply = received.end.unwrap().unwrap();
    check_first(&reply);
    assert_eq!((received.text.as_str(), received.thinking.as_str()), ("Let me look.", "I should look."));
    check_first(&models.complete(first.clone()).await.unwrap());

    let mut second = first;
    second.messages.push(Message::Assistant {
        text: reply.text,
        thinking: reply.thinking,
        calls: vec![ToolCall { id: "call_1".into(), name: "get_ocr_text".into(), arguments: json!({"page_num": 1}) }],
    });
    second.messages.push(Message::Tool { call: "call_1".into(), content: "5 EUR".into() });
    let received = receive(&mut models.stream(second).await.unwrap()).await;
    let reply = received.end.unwrap().unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("It is 5.", Some(FinishReason::Stop)));
    assert!(
        !reply.usage.reported && reply.usage.input_tokens > 20 && reply.usage.output_tokens > 2,
        "the client counts the tokens"
    );

    let chats = sim.chats();
    assert!(chats.iter().all(|chat| chat.header("authorization").is_some()), "the key is sent");
    let body = &chats[2].body;
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["thinking"]["type"], "enabled");
    assert_eq!(body["messages"][2]["thinking_blocks"].as_array().unwrap().len(), 2);
    assert_eq!(body["tools"][0]["function"]["name"], "get_ocr_text");
    assert!(chats[1].body.get("stream").is_none());
}

#[tokio::test]
async fn a_response_format_is_sent() {
    let sim = sim(Script::always(r#"{"total": 5}"#)).await;
    let mut request = request();
    request.response_format =
        Some(ResponseFormat { name: "invoice".into(), schema: json!({"type": "object"}), strict: true });
    let reply = models(&sim.url()).complete(request).await.unwrap();
    assert_eq!(reply.text, r#"{"total": 5}"#);
    let expected = json!({"type": "json_schema", "json_schema": {
        "name": "invoice", "schema": {"type": "object"}, "strict": true
    }});
    assert_eq!(sim.chats()[0].body["response_format"], expected);
}

#[tokio::test]
async fn the_table_lists_the_available_models() {
    let (models, _) = client("http://127.0.0.1:9/v1", |options| {
        let provider = options.providers.get_mut("openai").unwrap();
        let base = provider.models["scripted"].clone();
        provider.models.insert("another".into(), folio_llm::options::ModelOptions { chat: false, ..base.clone() });
        provider.models.insert("off".into(), folio_llm::options::ModelOptions { enabled: false, ..base });
    });
    let catalogue = models.catalogue(&org()).await.unwrap();
    let names: Vec<_> = catalogue.list().iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["scripted", "another"], "the default first");
    assert_eq!(catalogue.default_model(), "scripted");
    assert!(catalogue.get("off").is_none() && !catalogue.get("another").unwrap().options.chat);
    let mut unknown = request();
    unknown.model = "off".into();
    assert_eq!(models.complete(unknown).await, Err(ModelError::NotAvailable("off".into())));
}
