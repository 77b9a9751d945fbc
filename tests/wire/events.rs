//! Each kind of event, in its order, with its number.

use folio_proto::v1;
use folio_proto::v1::event::Kind;
use serde_json::Value;

use crate::client::{assert_numbered, decide, edited, outline, rejected};
use crate::sandbox::{Sandbox, Setup};

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
  - when: {user: slowly, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: Made.}
  - when: {user: slowly}
    answer: {calls: [{name: create_tag, arguments: {name: paid}}]}
  - when: {user: endless}
    answer: {text: again, calls: [{name: list_tags}]}
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
async fn a_write_call_pauses_the_turn_and_approving_goes_on_with_its_numbers() {
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

#[tokio::test]
async fn the_rounds_that_an_approval_sets_off_are_numbered_on() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let mut events = client.chat(&document, "slowly").await.end().await;
    let Some(Kind::AwaitingApproval(waiting)) = events.last().unwrap().kind.clone() else { panic!() };
    let approving = {
        let (client, request) = (client.clone(), decide(&waiting, crate::client::approved));
        tokio::spawn(async move { client.approve(request).await })
    };
    sandbox.sim.until_held().await;
    let watching = client.watch(&waiting.turn_id, events.last().unwrap().number + 1).await.unwrap();
    sandbox.sim.open("g").await;
    events.extend(watching.end().await);
    assert_numbered(&events, 1);
    let rest =
        ["tool_started", "tool_result", "round_finished", "round_started", "text_delta", "round_finished", "completed"];
    let names = outline(&events);
    let after = names.iter().position(|name| *name == "awaiting_approval").unwrap() + 1;
    assert_eq!(names[after..].iter().filter(|name| **name != "round_finished").count(), rest.len() - 2, "{names:?}");
    assert!(rest.iter().all(|name| names[after..].contains(name)), "{names:?}");
    let answer = approving.await.unwrap().unwrap();
    assert_eq!(events.last().unwrap().number, answer.event_number);
}

#[tokio::test]
async fn the_tenth_model_call_ends_the_turn_without_running_its_calls() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "endless").await;
    let thread = stream.thread();
    let completed = stream.completed().await;
    assert_eq!(completed.finish_reason(), v1::FinishReason::MaxRounds);
    assert!(completed.text.contains("(Max tool rounds reached.)"), "{}", completed.text);
    assert_eq!(sandbox.sim.chats().await.len(), 10);
    // The history that was left is one that an endpoint takes: llm-sim refuses any other.
    assert_eq!(client.say(&thread, "think").await.completed().await.finish_reason(), v1::FinishReason::Stop);
}

#[tokio::test]
async fn a_pause_that_gets_no_decision_ends_expired() {
    let setup = Setup::new(TALK).with("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", 1);
    let sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "write").await.pause().await;
    client.until(&waiting.turn_id, v1::TurnStatus::Expired).await;
    let error = crate::client::refused(client.approve(decide(&waiting, crate::client::approved)).await);
    assert_eq!((error.code, error.reason.as_str()), (folio_types::Code::NotFound, "TURN_EXPIRED"));
    assert!(client.tag_names().await.is_empty(), "invariant 2: nothing ran");
    let events = client.watch(&waiting.turn_id, 0).await.unwrap().end().await;
    assert_eq!(outline(&events).last(), Some(&"expired"));
}

#[tokio::test]
async fn a_superseded_turn_says_so_and_the_next_one_runs() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "write").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    let request = v1::ChatRequest {
        thread_id: thread.clone(),
        text: "think".into(),
        if_pending: v1::IfPending::Supersede.into(),
        ..Default::default()
    };
    client.send(request).await.unwrap().completed().await;
    let events = client.watch(&waiting.turn_id, 0).await.unwrap().end().await;
    assert_eq!(outline(&events).last(), Some(&"superseded"));
    assert_eq!(client.turn(&waiting.turn_id).await.status(), v1::TurnStatus::Superseded);
    assert!(client.tag_names().await.is_empty());
}

#[tokio::test]
async fn a_rejected_call_is_reported_to_the_model_and_an_edited_one_runs_as_edited() {
    let sandbox = Sandbox::start(TALK).await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "write").await.pause().await;
    let answer = client.approve(decide(&waiting, || rejected("not this name"))).await.unwrap();
    let round = answer.round.unwrap();
    assert_eq!(round.results[0].status(), v1::CallStatus::Rejected);
    let told = sandbox.sim.chats().await.pop().unwrap().body["messages"].to_string();
    assert!(told.contains("User rejected this action.") && told.contains("not this name"), "{told}");
    assert!(client.tag_names().await.is_empty());

    let waiting = client.chat(&document, "write").await.pause().await;
    client.approve(decide(&waiting, || edited(&serde_json::json!({"name": "open"})))).await.unwrap();
    assert_eq!(client.tag_names().await, ["open"]);
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("open") && !sent.contains("paid"), "the history shows the edited arguments: {sent}");
}
