use folio_types::limits::{ARGUMENTS_BYTES, MODEL_TEXT_BYTES};
use folio_types::message::{FinishReason, ThinkingBlock};
use serde_json::{Value, json};

use super::*;
use crate::model::{ModelEvent, ModelReply, RawToolCall};

/// Formats chunks as a stream with its end mark.
fn stream_of(chunks: &[Value]) -> String {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

fn delta(delta: Value) -> Value {
    json!({"model": "vendor/m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn parse(text: &str) -> Result<ModelReply, StreamError> {
    let mut parser = StreamParser::default();
    parser.feed(text.as_bytes())?;
    parser.end()?;
    let (mut reply, usage) = parser.assembler().take_reply()?;
    reply.usage = usage.unwrap_or_default();
    Ok(reply)
}

fn reply(chunks: &[Value]) -> ModelReply {
    parse(&stream_of(chunks)).unwrap()
}

fn malformed(chunks: &[Value]) -> bool {
    matches!(parse(&stream_of(chunks)), Err(StreamError::Malformed(_)))
}

fn call(index: Option<u32>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{
        "index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}
    }]}))
}

fn raw(id: &str, name: &str, arguments: &str) -> RawToolCall {
    RawToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

#[test]
fn a_text_is_assembled_with_usage() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}});
    let found = reply(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hello"})),
        delta(json!({"content": ", \"wörld\"\n"})),
        finish("stop"),
        usage,
    ]);
    assert_eq!((found.text.as_str(), found.model.as_str()), ("Hello, \"wörld\"\n", "vendor/m"));
    assert_eq!(found.finish, Some(FinishReason::Stop));
    assert_eq!((found.usage.input_tokens, found.usage.output_tokens, found.usage.reported), (7, 2, true));
}

#[test]
fn deltas_of_one_read_are_returned_together() {
    let mut parser = StreamParser::default();
    let text = stream_of(&[
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"reasoning_content": "m"})),
        delta(json!({"content": "a"})),
        delta(json!({"content": "b"})),
    ]);
    parser.feed(text.as_bytes()).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| parser.assembler().next_event()).collect();
    assert_eq!(events, [ModelEvent::Thinking("hmm".into()), ModelEvent::Text("ab".into())]);
}

#[test]
fn interleaved_calls_are_distinguished_by_their_index() {
    let found = reply(&[
        call(Some(0), Some("a"), Some("one"), ""),
        call(Some(1), Some("b"), Some("two"), "{\"x\""),
        call(Some(0), None, None, "{\"y\":"),
        call(Some(1), Some("b"), None, ":1}"),
        call(Some(0), None, Some("one"), "2}"),
        finish("tool_calls"),
    ]);
    assert_eq!(found.calls, [raw("a", "one", "{\"y\":2}"), raw("b", "two", "{\"x\":1}")]);
    assert_eq!(found.finish, Some(FinishReason::ToolCalls));
}

#[test]
fn calls_under_one_index_or_none_are_distinguished_by_their_id() {
    for index in [Some(0), None] {
        let found = reply(&[
            call(index, Some("a"), Some("one"), "{}"),
            call(index, Some("b"), Some("two"), "{\"x\""),
            call(index, None, None, ":1}"),
            finish("stop"),
        ]);
        assert_eq!(found.calls, [raw("a", "one", "{}"), raw("b", "two", "{\"x\":1}")], "{index:?}");
        assert_eq!(found.finish, Some(FinishReason::ToolCalls), "tool calls determine the finish reason");
    }
}

#[test]
fn arguments_that_are_not_json_are_returned_for_the_error_message() {
    let found = reply(&[call(Some(0), Some("a"), Some("one"), "{\"x\": tru"), finish("length")]);
    assert_eq!(
        (found.calls.as_slice(), found.finish),
        ([raw("a", "one", "{\"x\": tru")].as_slice(), Some(FinishReason::Length))
    );
    let none = reply(&[call(Some(0), Some("a"), Some("one"), ""), finish("tool_calls")]);
    assert_eq!(none.calls, [raw("a", "one", "{}")], "no arguments are an empty object");
    let cut = reply(&[call(Some(0), Some("a"), Some("one"), ""), finish("length")]);
    assert_eq!(cut.calls, [raw("a", "one", "")], "unless the length limit may have cut them off");
}

#[test]
fn an_unknown_finish_reason_ends_the_answer_like_stop() {
    for (reason, expected) in [
        ("stop", FinishReason::Stop),
        ("end_turn", FinishReason::Stop),
        ("tool_calls", FinishReason::Stop),
        ("something new", FinishReason::Stop),
        ("length", FinishReason::Length),
        ("max_tokens", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
    ] {
        assert_eq!(reply(&[delta(json!({"content": "a"})), finish(reason)]).finish, Some(expected), "{reason}");
    }
}

#[test]
fn signed_thinking_keeps_its_blocks_apart() {
    let block = |thinking: &str, signature: Option<&str>| {
        // LiteLLM sends the thinking text in both fields.
        delta(json!({
            "reasoning_content": thinking,
            "thinking_blocks": [{"type": "thinking", "thinking": thinking, "signature": signature}]
        }))
    };
    let found = reply(&[
        block("let ", None),
        block("me see", None),
        block("", Some("sig-1")),
        delta(json!({"thinking_blocks": [{"type": "redacted_thinking", "data": "xyz"}]})),
        block("more", None),
        // Some endpoints repeat the whole block with its signature.
        block("more", Some("sig-2")),
        delta(json!({"reasoning": "unsigned"})),
        delta(json!({"content": "done"})),
        finish("stop"),
    ]);
    let thinking = |text: &str, signature: Option<&str>, data: Option<&str>| ThinkingBlock {
        text: text.into(),
        signature: signature.map(str::to_owned),
        data: data.map(str::to_owned),
        model: None,
    };
    assert_eq!(
        found.thinking,
        [
            thinking("let me see", Some("sig-1"), None),
            thinking("", None, Some("xyz")),
            thinking("more", Some("sig-2"), None),
            thinking("unsigned", None, None),
        ]
    );
}

#[test]
fn a_stream_without_a_finish_reason_is_never_an_answer() {
    let text = delta(json!({"content": "The total is 1"}));
    assert_eq!(parse(&format!("data: {text}\n\n")), Err(StreamError::Incomplete));
    assert_eq!(
        parse(&stream_of(std::slice::from_ref(&text))),
        Err(StreamError::Incomplete),
        "the end mark is no finish reason"
    );
    assert_eq!(parse(""), Err(StreamError::Incomplete));
    assert_eq!(parse(": only a comment\n\n"), Err(StreamError::Incomplete));
    let half = format!("data: {text}\n\ndata: {{\"choices\": [{{\"del");
    assert_eq!(parse(&half), Err(StreamError::Incomplete), "half an event at the end is a cut");
    let complete = format!("data: {text}\n\ndata: {}", finish("stop"));
    assert_eq!(
        parse(&complete).map(|reply| reply.text),
        Ok("The total is 1".into()),
        "the last line end may be missing"
    );
}

#[test]
fn malformed_events_are_errors() {
    let text = || delta(json!({"content": "a"}));
    assert!(malformed(&[finish("stop"), text()]), "a delta after the finish reason");
    assert!(malformed(&[finish("stop"), call(Some(0), Some("a"), Some("b"), "")]), "a call after the finish reason");
    assert!(malformed(&[finish("stop"), finish("length")]), "two finish reasons");
    assert!(malformed(&[json!({})]), "no choices");
    assert!(malformed(&[json!({"choices": null})]), "no choices");
    assert!(malformed(&[json!({"choices": {}})]), "choices of another format");
    assert!(malformed(&[json!({"choices": [{"index": 1, "delta": {"content": "b"}}]})]), "another choice");
    assert!(malformed(&[delta(json!({"content": 5}))]), "a text that is not a string");
    assert!(malformed(&[json!([]), text()]), "no object");
    assert!(malformed(&[call(Some(0), Some("a"), Some("one"), ""), call(Some(0), Some("a"), Some("two"), "")]));
    assert!(matches!(parse("data: {garbage\n\n"), Err(StreamError::Malformed(_))));
    assert!(matches!(parse("data: \u{1}\u{2}\n\n"), Err(StreamError::Malformed(_))));
    let deep = format!("data: {}\n\n", "[".repeat(100_000));
    assert!(matches!(parse(&deep), Err(StreamError::Malformed(_))));
    let Err(StreamError::Malformed(message)) = parse("data: {\"choices\": \"a secret of the document\"}\n\n") else {
        panic!("no error")
    };
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn known_deviations_of_endpoints_are_accepted() {
    let repeated = json!({"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let filter = json!({"choices": [], "prompt_filter_results": [{"index": 0}]});
    let found = reply(&[filter, delta(json!({"content": "a"})), finish("stop"), repeated]);
    assert_eq!((found.text.as_str(), found.usage.reported), ("a", true));
    let tail = stream_of(&[delta(json!({"content": "a"})), finish("stop")]) + "data: {garbage\n\n";
    assert!(parse(&tail).is_ok(), "data after the end mark is ignored");
}

#[test]
fn an_error_inside_of_a_stream_is_reported() {
    for (error, status, message) in [
        (json!({"error": {"message": "overloaded", "code": 529}}), Some(529), "overloaded"),
        (json!({"error": {"message": "slow down", "code": "429"}, "choices": []}), Some(429), "slow down"),
        (json!({"error": "broken"}), None, "broken"),
    ] {
        let expected = StreamError::Reported { status, message: message.into() };
        assert_eq!(parse(&stream_of(&[delta(json!({"content": "a"})), error])), Err(expected));
    }
}

#[test]
fn everything_that_grows_is_bounded() {
    let many = |chunk: Value, times: usize| parse(&stream_of(&vec![chunk; times]));
    let chunk = "x".repeat(10_000);
    let times = MODEL_TEXT_BYTES / chunk.len() + 1;
    assert_eq!(many(delta(json!({"content": chunk})), times), Err(StreamError::TooLarge("text")));
    assert_eq!(many(delta(json!({"reasoning_content": chunk})), times), Err(StreamError::TooLarge("thinking")));
    let signed = delta(json!({"thinking_blocks": [{"signature": "s"}]}));
    assert_eq!(many(signed, 100), Err(StreamError::TooLarge("thinking blocks")));
    let times = ARGUMENTS_BYTES / chunk.len() + 1;
    let arguments = call(Some(0), Some("a"), Some("one"), &chunk);
    assert_eq!(many(arguments, times), Err(StreamError::TooLarge("tool arguments")));
    let calls: Vec<_> = (0..200).map(|n| call(Some(n), Some(&format!("c{n}")), Some("f"), "{}")).collect();
    assert_eq!(parse(&stream_of(&calls)), Err(StreamError::TooLarge("tool calls")));
    let spread: Vec<_> = (0..30).map(|n| call(Some(n), None, Some("f"), &chunk)).collect();
    assert_eq!(parse(&stream_of(&spread)), Err(StreamError::TooLarge("tool arguments")));
    let name = call(Some(0), Some("a"), Some(&chunk), "");
    assert_eq!(parse(&stream_of(&[name])), Err(StreamError::TooLarge("name of a tool call")));
}

#[test]
fn a_response_without_streaming_gives_the_same_answer() {
    let mut assembler = Assembler::default();
    let body = json!({
        "model": "vendor/m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": null, "reasoning_content": "hm",
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "one", "arguments": "{}"}},
                {"id": "a", "type": "function", "function": {"name": "two", "arguments": "{\"x\":1}"}}
            ]
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}
    });
    assembler.non_streaming(&body.to_string()).unwrap();
    let (found, usage) = assembler.take_reply().unwrap();
    assert_eq!(found.calls, [raw("a", "one", "{}"), raw("a", "two", "{\"x\":1}")]);
    assert_eq!(
        found.thinking,
        [ThinkingBlock { text: "hm".into(), signature: Some("s".into()), ..ThinkingBlock::default() }]
    );
    assert_eq!((found.finish, usage.unwrap().output_tokens), (Some(FinishReason::ToolCalls), 4));

    for (bad, error) in [
        (json!({"choices": []}), StreamError::malformed("the answer has no choice")),
        (json!({"choices": [{"message": {"content": "a"}}]}), StreamError::Incomplete),
    ] {
        assert_eq!(Assembler::default().non_streaming(&bad.to_string()), Err(error));
    }
}
