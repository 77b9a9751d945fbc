//! Each kind of event, in its order, with its number.

use folio_proto::v1;
use folio_proto::v1::event::Kind;
use serde_json::Value;

use crate::client::{assert_numbered, outline};
use crate::sandbox::Sandbox;

const TALK: &str = "
rules:
  - when: {user: think}
    answer:
      text: The total is 957.00 EUR, as printed near the end of the document.
      thinking: [{text: Let me see where the total stands in this document., signature: sig-1}]
      usage: {prompt_tokens: 100, cached_tokens: 10, completion_tokens: 20}
  - when: {user: read}
    rounds:
      - text: I look.
        calls: [{id: same, name: list_tags}, {id: same, name: get_ocr_text, arguments: {page_num: 1}}]
      - text: Seen.
  - when: {user: write}
    rounds:
      - text: I make a tag.
        calls: [{name: create_tag, arguments: {name: paid}}, {name: list_tags}]
      - text: Made.
";

#[tokio::test]
async fn a_turn_of_words_streams_thinking_and_text_and_completes() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let events = client.chat(&document, "think").await.end().await;
    assert_eq!(
        outline(&events),
        ["turn_started", "round_started", "thinking_delta", "text_delta", "round_finished", "completed"]
    );
    assert_numbered(&events, 1);
    let joined = |pick: fn(&Kind) -> Option<&str>| -> String {
        events.iter().filter_map(|event| event.kind.as_ref().and_then(pick)).collect()
    };
    let text = joined(|kind| if let Kind::TextDelta(delta) = kind { Some(&delta.text) } else { None });
    let thinking = joined(|kind| if let Kind::ThinkingDelta(delta) = kind { Some(&delta.text) } else { None });
    let Some(Kind::Completed(completed)) = &events.last().unwrap().kind else { panic!("{events:?}") };
    assert_eq!(text, "The total is 957.00 EUR, as printed near the end of the document.");
    assert_eq!((completed.text.as_str(), completed.thinking.as_str()), (text.as_str(), thinking.as_str()));
    assert!(thinking.starts_with("Let me see"));
    assert_eq!(completed.finish_reason(), v1::FinishReason::Stop);
    let usage = completed.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.model_calls),
        (100, 10, 20, 1)
    );
    let Some(Kind::TurnStarted(started)) = &events[0].kind else { panic!() };
    assert_eq!(started.model, "scripted");
    let thread = client.thread(&started.thread_id).await;
    assert_eq!(thread.thread.unwrap().title, "think");
    assert_eq!(thread.messages.len(), 2);
}

#[tokio::test]
async fn read_only_calls_run_without_waiting() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let events = client.chat(&document, "read").await.end().await;
    assert_numbered(&events, 1);
    let names = outline(&events);
    let first = names.iter().position(|name| *name == "round_finished").unwrap();
    assert_eq!(names[..3], ["turn_started", "round_started", "text_delta"]);
    assert_eq!(names.iter().filter(|name| **name == "tool_started").count(), 2);
    assert_eq!(names.iter().filter(|name| **name == "tool_result").count(), 2);
    assert_eq!(names[first + 1..], ["round_started", "text_delta", "round_finished", "completed"]);
    let calls = events.iter().find_map(|event| match &event.kind {
        Some(Kind::ToolCalls(calls)) => Some(calls.calls.clone()),
        _ => None,
    });
    let calls = calls.unwrap();
    assert!(calls.iter().all(|call| !call.needs_approval && call.access() == v1::ToolAccess::ReadOnly));
    assert_ne!(calls[0].call_id, calls[1].call_id, "ids are Folio's own, the provider repeats its");
    let results: Vec<&v1::ToolResult> = events
        .iter()
        .filter_map(|event| if let Some(Kind::ToolResult(result)) = &event.kind { Some(result) } else { None })
        .collect();
    assert!(results.iter().all(|result| result.status() == v1::CallStatus::Ok), "{results:?}");
    assert!(results.iter().any(|result| result.content.contains("A-17")));
}

#[tokio::test]
async fn a_write_call_pauses_the_turn_and_the_approval_continues_its_event_numbers() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let events = client.chat(&document, "write").await.end().await;
    let names = outline(&events);
    assert_eq!(names.last(), Some(&"awaiting_approval"));
    assert!(!names.contains(&"tool_started"), "no call of the round runs: {names:?}");
    let Some(Kind::AwaitingApproval(waiting)) = events.last().unwrap().kind.clone() else { panic!() };
    let need: Vec<(&str, bool)> =
        waiting.pending.iter().map(|call| (call.name.as_str(), call.needs_approval)).collect();
    assert_eq!(need, [("create_tag", true), ("list_tags", false)]);
    assert!(!waiting.pending[0].arguments_digest.is_empty() && waiting.expire_time.is_some());
    assert_eq!(serde_json::from_str::<Value>(&waiting.pending[0].arguments_json).unwrap()["name"], "paid");
    assert!(client.tag_names().await.is_empty());

    let answer = client.approve_all(&waiting).await;
    let Some(v1::approve_response::Outcome::Completed(completed)) = answer.outcome else { panic!("{answer:?}") };
    assert_eq!(completed.text, "Made.");
    assert_eq!(client.tag_names().await, ["paid"]);
    let paused = events.last().unwrap().number;
    let rest = client.watch(&waiting.turn_id, paused + 1).await.unwrap().end().await;
    let last = rest.last().unwrap();
    assert_eq!((outline(&rest).pop(), last.number), (Some("completed"), answer.event_number));
    assert!(last.number > paused);
}
