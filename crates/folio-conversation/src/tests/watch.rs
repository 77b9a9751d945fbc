//! Watching a turn: from an event number, after a restart, and beyond the event buffer.

use std::time::Instant;

use super::*;

async fn watch(sandbox: &Sandbox, turn: &TurnId, from: u64) -> Vec<Event> {
    all(sandbox.conversations.watch(&sandbox.principal, turn, from).await.unwrap()).await
}

#[tokio::test]
async fn a_watcher_gets_the_events_from_the_requested_number() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([call("list_tags", json!({})), say("All of it.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    let turn = events[0].turn.clone();
    assert_eq!(watch(&sandbox, &turn, 1).await, events, "invariant 9");
    let middle = events[3].number;
    assert_eq!(watch(&sandbox, &turn, middle).await, events[3..].to_vec());
    let last = events.last().unwrap().clone();
    assert_eq!(watch(&sandbox, &turn, last.number + 1).await, [last], "nothing to deliver: closed from the journal");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_watcher_after_the_buffer_was_lost_gets_a_snapshot_and_the_closing_event() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([say("All of it.")]);
    let events = sandbox.run(sandbox.chat("x")).await;
    sandbox.restart().await;
    let turn = events[0].turn.clone();
    let received = watch(&sandbox, &turn, 1).await;
    assert_eq!(received.len(), 2, "{received:?}");
    let EventKind::Snapshot(view) = &received[0].kind else { panic!("{received:?}") };
    assert_eq!((view.status, view.text.as_str()), (TurnStatus::Completed, "All of it."));
    assert_eq!(view.next_event, received[1].number);
    assert_eq!(received[1], *events.last().unwrap());
    sandbox.finish().await;
}

#[tokio::test]
async fn late_and_slow_watchers_receive_a_snapshot_and_the_same_closing_event() {
    let options = Options { event_buffer_count: 3, ..Options::default() };
    let sandbox = Sandbox::start_with(options).await;
    sandbox.models.then([call("list_tags", json!({})), call("list_tags", json!({})), gated(say("one two three"))]);
    let mut stream = sandbox.begin(sandbox.chat("x")).await;
    let mut slow = Vec::new();
    slow.push(stream.next().await.unwrap().unwrap());
    let turn = slow[0].turn.clone();
    sandbox.wait_for_model_calls(3).await;
    let late = sandbox.conversations.watch(&sandbox.principal, &turn, 1).await.unwrap();
    sandbox.models.release();
    let late = all(late).await;
    let EventKind::Snapshot(view) = &late[0].kind else { panic!("{late:?}") };
    assert_eq!(view.status, TurnStatus::Running);
    assert!(view.rounds.len() >= 2, "the state so far");
    // A slow reader receives a snapshot instead of the missed events, and the same end.
    while let Some(event) = stream.next().await {
        slow.push(event.unwrap());
    }
    assert!(slow.iter().any(|event| matches!(event.kind, EventKind::Snapshot(_))), "{slow:?}");
    assert_eq!(slow.last(), late.last());
    sandbox.finish().await;
}

#[tokio::test]
async fn deltas_are_published_at_most_every_ten_milliseconds() {
    let sandbox = Sandbox::start().await;
    let answer = ["word"; 200].join(" ");
    sandbox.models.then([Step::SayWithYields(answer.clone())]);
    let started = Instant::now();
    let events = sandbox.run(sandbox.chat("x")).await;
    let intervals = started.elapsed().as_millis() / 10;
    let texts = events.iter().filter_map(|event| match &event.kind {
        EventKind::TextDelta { text } => Some(text.as_str()),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts.concat(), answer);
    // The first delta and the last group do not wait.
    assert!(texts.len() <= usize::try_from(intervals).unwrap() + 2, "{} groups in {intervals} intervals", texts.len());
    sandbox.finish().await;
}

#[tokio::test]
async fn invariant_10_the_watchers_of_a_conversation_are_bounded() {
    let sandbox = Sandbox::start_with(Options { watchers_per_conversation: 2, ..Options::default() }).await;
    sandbox.models.then([gated(say("Late."))]);
    let mut first = sandbox.begin(sandbox.chat("x")).await;
    let turn = first.next().await.unwrap().unwrap().turn;
    let mut second = sandbox.conversations.watch(&sandbox.principal, &turn, 0).await.unwrap();
    second.next().await.unwrap().unwrap();
    let error = sandbox.conversations.watch(&sandbox.principal, &turn, 0).await.err().unwrap();
    assert_eq!(error.reason, Reason::Overloaded);
    assert!(error.retry_after.is_some_and(|after| !after.is_zero()), "{error:?}");
    sandbox.models.release();
    assert_eq!(all(first).await.last(), all(second).await.last());
    sandbox.finish().await;
}
