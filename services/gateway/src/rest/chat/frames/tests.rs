use folio_history::journal::WorkingState;
use folio_types::message::{FinishReason, Usage};
use folio_types::{Error, Reason, Timestamp};

use super::*;
use crate::rest::chat::result::tests::{call, round, turn};

/// Returns the frames of a sequence of events.
fn frames(kinds: Vec<EventKind>) -> Vec<Value> {
    let mut state = Frames::default();
    let events = kinds.into_iter().zip(1..).map(|(kind, number)| Event::new(turn(), number, kind));
    events.flat_map(|event| state.of(&event, None)).collect()
}

fn types(frames: &[Value]) -> Vec<&str> {
    frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect()
}

fn text(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.to_owned() }
}

fn begun(round: u32) -> EventKind {
    EventKind::RoundStarted { round, attempt: 1 }
}

fn finished(round: u32) -> EventKind {
    EventKind::RoundFinished { round, model: "m".to_owned(), usage: Usage::default() }
}

fn requested(round: u32, needs_approval: bool) -> EventKind {
    EventKind::ToolCalls { calls: vec![call(round, 1, needs_approval)] }
}

fn started(round: u32) -> EventKind {
    EventKind::ToolStarted { call: call(round, 1, false).id, name: "create_tag".to_owned() }
}

fn ended(round: u32, status: CallStatus) -> EventKind {
    let (call, name) = (call(round, 1, false).id, "create_tag".to_owned());
    EventKind::ToolResult { call, name, status, content: "x".repeat(PREVIEW_CHARS + 1) }
}

fn completed(text: &str, rounds: Vec<RoundView>) -> EventKind {
    EventKind::Completed {
        text: text.to_owned(),
        thinking: "hm".to_owned(),
        working: WorkingState::default(),
        rounds,
        finish: FinishReason::Stop,
        usage: Usage::default(),
    }
}

#[test]
fn a_round_that_runs_is_announced_and_the_answer_follows() {
    let thinking = EventKind::ThinkingDelta { text: "hm".to_owned() };
    let frames = frames(vec![
        EventKind::TurnStarted { model: "m".to_owned() },
        begun(1),
        requested(1, false),
        started(1),
        ended(1, CallStatus::Ok),
        finished(1),
        begun(2),
        thinking,
        text("Do"),
        text("ne."),
        finished(2),
        completed("Done.", vec![round(1, 2)]),
    ]);
    let expected = [
        "tool_calls",
        "tool_result",
        "round_executed",
        "thinking_chunk",
        "assistant_text_chunk",
        "assistant_text_chunk",
        "thinking_done",
        "assistant_text_done",
        "done",
    ];
    assert_eq!(types(&frames), expected);
    let rounds: Vec<&Value> = frames.iter().map(|frame| &frame["round_index"]).collect();
    assert_eq!(rounds[..8], [0, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!((&frames[1]["success"], frames[1]["preview"].as_str().unwrap().chars().count()), (&json!(true), 201));
    assert_eq!(frames[7]["full_text"], "Done.");
    let result = &frames[8]["result"];
    assert_eq!((&result["text"], result["executed_rounds"].as_array().unwrap().len()), (&json!("Done."), 1));
    assert!(result.get("turn_id").is_none());
}

#[test]
fn calls_that_wait_are_announced_only_by_the_last_frame() {
    let pending = vec![call(1, 1, true)];
    let waiting = EventKind::AwaitingApproval { round: 1, pending, expires_at: Timestamp::UNIX_EPOCH };
    let frames = frames(vec![begun(1), text("I create a tag."), requested(1, true), finished(1), waiting]);
    assert_eq!(types(&frames), ["assistant_text_chunk", "assistant_text_done", "done"]);
    let result = &frames[2]["result"];
    assert_eq!((&result["turn_id"], &result["text"]), (&json!(turn()), &json!("I create a tag.")));
    assert_eq!(result["tool_calls"][0]["id"], json!(call(1, 1, true).id));
    assert_eq!(result["executed_rounds"], Value::Null);
}

#[test]
fn a_call_that_failed_has_an_error_instead_of_a_result() {
    let frames = frames(vec![begun(1), requested(1, false), started(1), ended(1, CallStatus::Failed)]);
    assert_eq!(types(&frames), ["tool_calls", "tool_result"]);
    assert_eq!(frames[1]["success"], false);
    assert!(frames[1]["error"].is_string() && frames[1].get("result").is_none(), "{}", frames[1]);
}

#[test]
fn a_call_that_waits_for_the_store_has_a_frame_that_announces_no_round() {
    let waiting = || EventKind::WaitingForStore { call: call(1, 1, false).id, name: "create_tag".to_owned() };
    let frames = frames(vec![
        begun(1),
        requested(1, false),
        waiting(),
        started(1),
        waiting(),
        ended(1, CallStatus::Ok),
        finished(1),
    ]);
    let expected = ["waiting_for_store", "tool_calls", "waiting_for_store", "tool_result", "round_executed"];
    assert_eq!(types(&frames), expected);
    let id = call(1, 1, false).id;
    let frame =
        json!({ "type": "waiting_for_store", "round_index": 0, "call_id": id.to_string(), "name": "create_tag" });
    assert_eq!((&frames[0], &frames[2]), (&frame, &frame));
}

#[test]
fn a_snapshot_is_followed_by_what_was_not_received() {
    let running = RoundView { calls: Vec::new(), text: "Done".to_owned(), ..round(2, 0) };
    let view = TurnView { rounds: vec![round(1, 2), running], ..TurnView::new(turn(), "m", "hello") };
    let sent = |before: Vec<EventKind>| {
        let count = frames(before.clone()).len();
        let all = before.into_iter().chain([EventKind::Snapshot(Box::new(view.clone()))]).collect();
        frames(all).split_off(count)
    };
    let all = sent(vec![]);
    assert_eq!(types(&all), ["tool_calls", "tool_result", "tool_result", "round_executed", "assistant_text_chunk"]);
    let missing = sent(vec![begun(1), requested(1, false), started(1), ended(1, CallStatus::Ok)]);
    assert_eq!(types(&missing), ["tool_result", "round_executed", "assistant_text_chunk"]);
    let missing = sent(vec![begun(2), text("Do")]);
    assert_eq!((types(&missing), &missing[0]["chunk"]), (vec!["assistant_text_chunk"], &json!("ne")));
}

#[test]
fn every_stream_ends_with_done_or_an_error() {
    let failed = |error| EventKind::Failed { error, retriable: false };
    let credit = Error::exhausted(Reason::CreditExhausted, "no credit").detail("need", 3).detail("balance", 1);
    for (kind, expected) in [
        (failed(credit), "Insufficient SPU credits: Required: 3, Available: 1"),
        (failed(Error::precondition(Reason::ModelNotAvailable, "no such model")), "No such model"),
        (EventKind::Cancelled, "The turn was cancelled"),
        (EventKind::Expired, "The approval expired"),
        (EventKind::Superseded, "Another message superseded the turn"),
    ] {
        let frames = frames(vec![begun(1), kind]);
        assert_eq!((types(&frames), &frames[0]["error"]), (vec!["error"], &json!(expected)));
    }
}
