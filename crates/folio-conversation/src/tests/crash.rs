//! The process dies in every phase of a turn and starts again on the same store.

use folio_history::event::{EventKind, TurnStatus};
use folio_history::journal::{CallStatus, Entry};

use folio_resources::{Resource as _, Tag, TagChange};
use folio_types::op::{Expected, OpKey, Write};
use folio_types::{Digest, Environment as _};
use serde_json::json;

use super::sandbox::{SOON, Sandbox, all, approve_all, closing, request};
use super::script::{call, say};
use folio_history::command::ChatCommand;

/// Waits until the sweep has ended the turn, without any request.
pub(super) async fn settled(sandbox: &Sandbox, turn: &folio_types::TurnId) {
    folio_testkit::wait_for("the sweep to end the turn", SOON, || async {
        sandbox.header(&turn.thread).await.open_turn.is_none().then_some(())
    })
    .await;
    folio_testkit::wait_for("the conversation to know", SOON, || async {
        (sandbox.turn(turn).await.status != TurnStatus::Running).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_running_turn_is_found_after_a_crash_ended_retriably_and_resumed() {
    for point in ["accept:after", "model:before", "model:after", "read:before", "read:after", "end:before"] {
        let mut sandbox = Sandbox::start().await;
        sandbox.models.then([call("list_tags", json!({})), say("First run.")]);
        sandbox.hang_at(Some(point));
        let chat = ChatCommand { request_id: request("r-1"), ..sandbox.chat("look") };
        let (conversations, principal, command) =
            (sandbox.conversations.clone(), sandbox.principal.clone(), chat.clone());
        let first = tokio::spawn(async move { conversations.chat(&principal, command).await.map(drop) });
        sandbox.reaches(point).await;
        sandbox.restart().await;
        let _ = first.await;
        let thread = sandbox.listed().await;
        let turn = folio_types::TurnId::new(thread.clone(), 1);
        settled(&sandbox, &turn).await;
        let view = sandbox.turn(&turn).await;
        assert_eq!((view.status, view.retriable), (TurnStatus::Failed, true), "invariant 8 at {point}");
        sandbox.assert_sendable(&thread).await;
        let left = sandbox.models.left();
        sandbox.models.then((left..2).map(|_| say("Second run.")).take(usize::from(left == 0)));
        let events = sandbox.run(chat).await;
        assert!(matches!(closing(&events), EventKind::Completed { .. }), "{point}: {events:?}");
        let header = sandbox.header(&thread).await;
        assert_eq!((header.turns, header.open_turn), (1, None), "{point}");
        sandbox.models.drain();
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn a_crash_before_acceptance_leaves_no_trace_of_the_chat() {
    let mut sandbox = Sandbox::start().await;
    sandbox.hang_at(Some("accept:before"));
    let chat = ChatCommand { request_id: request("r-1"), ..sandbox.chat("look") };
    let (conversations, principal, command) = (sandbox.conversations.clone(), sandbox.principal.clone(), chat.clone());
    let first = tokio::spawn(async move { conversations.chat(&principal, command).await.map(drop) });
    sandbox.reaches("accept:before").await;
    sandbox.restart().await;
    assert!(first.await.unwrap().is_err());
    sandbox.models.then([say("Only run.")]);
    let events = sandbox.run(chat).await;
    assert_eq!(events[0].turn.number, 1);
    assert_eq!(sandbox.header(&events[0].turn.thread).await.turns, 1);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_pause_survives_and_can_be_approved_after_a_restart() {
    let mut sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.restart().await;
    assert_eq!(sandbox.turn(&turn).await.pending, pending);
    sandbox.models.then([say("Made.")]);
    super::sandbox::reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    assert_eq!(sandbox.tag_names().await, ["a"]);
    assert_eq!(sandbox.header(&turn.thread).await.epoch, 2);
    sandbox.finish().await;
}

#[tokio::test]
async fn an_approved_write_happens_once_after_a_crash_at_any_step() {
    let points = [
        "decide:before",
        "decide:after",
        "plan:before",
        "plan:after",
        "intent:before",
        "intent:after",
        "write:before",
        "write:after",
        "outcome:before",
        "outcome:after",
        "model:before",
        "model:after",
        "end:before",
        "end:after",
    ];
    for point in points {
        let mut sandbox = Sandbox::start().await;
        let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
        sandbox.models.then([say("Made."), say("Made.")]);
        sandbox.forget_reached();
        sandbox.hang_at(Some(point));
        let command = approve_all(&turn, &pending);
        let (conversations, principal, first) =
            (sandbox.conversations.clone(), sandbox.principal.clone(), command.clone());
        let first = tokio::spawn(async move { conversations.approve(&principal, first).await });
        sandbox.reaches(point).await;
        sandbox.restart().await;
        let _ = first.await;
        // The same decisions again: join, resume, or the recorded answer.
        let answer = sandbox.approve_with(command.clone()).await.unwrap();
        let mut reached = super::sandbox::reached(answer);
        if matches!(reached, EventKind::Failed { retriable: true, .. }) {
            let resumed = all(sandbox.conversations.resume(&sandbox.principal, &turn).await.unwrap()).await;
            reached = closing(&resumed).clone();
        }
        assert!(matches!(reached, EventKind::Completed { .. }), "{point}: {reached:?}");
        assert_eq!(sandbox.tag_names().await, ["once"], "invariant 3 at {point}");
        let view = sandbox.turn(&turn).await;
        assert_eq!(view.rounds[0].results[0].status, folio_history::journal::CallStatus::Ok, "{point}");
        sandbox.assert_sendable(&turn.thread).await;
        sandbox.models.drain();
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn invariant_3_recovery_ignores_an_op_row_of_other_arguments() {
    let mut sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "mine"}))).await;
    sandbox.hang_at(Some("write:before"));
    let command = approve_all(&turn, &pending);
    let (conversations, principal, first) = (sandbox.conversations.clone(), sandbox.principal.clone(), command.clone());
    let first = tokio::spawn(async move { conversations.approve(&principal, first).await });
    sandbox.reaches("write:before").await;
    let intents = sandbox.journal(&turn.thread).await.into_iter().filter_map(|entry| match entry {
        Entry::Intent(intent) => Some(intent.target),
        _ => None,
    });
    let target = intents.last().unwrap();
    let write = Write {
        org: sandbox.principal.org.clone(),
        op: OpKey::Call(pending[0].id.clone()),
        digest: Digest::of(b"other arguments"),
        by: sandbox.principal.user.clone(),
        at: sandbox.environment.now(),
        expected: Expected::Absent,
        change: TagChange::Create { name: "another".to_owned(), color: None, description: None },
    };
    let Some(id) = Tag::id_in(&target) else { panic!("{target:?}") };
    sandbox.stores.of::<Tag>().decide(&id, write).await.unwrap();
    sandbox.restart().await;
    let _ = first.await;
    settled(&sandbox, &turn).await;
    let view = sandbox.turn(&turn).await;
    assert_eq!(view.rounds[0].results[0].status, CallStatus::Failed, "{:?}", view.rounds[0].results);
    assert_eq!(sandbox.tag_names().await, ["another"]);
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn an_interrupted_cancellation_is_finished() {
    for point in ["closing:after", "close:before", "close:after"] {
        let mut sandbox = Sandbox::start().await;
        let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "never"}))).await;
        sandbox.hang_at(Some("write:before"));
        let (conversations, principal, command) =
            (sandbox.conversations.clone(), sandbox.principal.clone(), approve_all(&turn, &pending));
        let approve = tokio::spawn(async move { conversations.approve(&principal, command).await });
        sandbox.reaches("write:before").await;
        sandbox.hang_at(Some(point));
        let (conversations, principal, cancelled) =
            (sandbox.conversations.clone(), sandbox.principal.clone(), turn.clone());
        let cancel = tokio::spawn(async move { conversations.cancel(&principal, &cancelled).await });
        sandbox.reaches(point).await;
        sandbox.restart().await;
        let _ = (approve.await, cancel.await);
        settled(&sandbox, &turn).await;
        assert_eq!(sandbox.turn(&turn).await.status, TurnStatus::Cancelled, "{point}");
        assert!(sandbox.tag_names().await.is_empty(), "{point}: nothing runs after closing");
        sandbox.assert_sendable(&turn.thread).await;
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn index_rows_are_removed_after_their_turns_ended() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([super::script::Step::Hang, say("Second.")]);
    let chat = ChatCommand { request_id: request("r-1"), ..sandbox.chat("x") };
    let stream = sandbox.begin(chat.clone()).await;
    sandbox.wait_for_model_calls(1).await;
    assert_eq!(sandbox.open_rows().await.len(), 1);
    sandbox.restart().await;
    drop(stream);
    sandbox.run(chat).await;
    folio_testkit::wait_for("an empty index", SOON, || async { sandbox.open_rows().await.is_empty().then_some(()) })
        .await;
    let thread = sandbox.listed().await;
    let resumed = sandbox.journal(&thread).await.into_iter().filter(|e| matches!(e, Entry::Resumed(_))).count();
    assert!(resumed >= 1, "a takeover is an append");
    sandbox.finish().await;
}
