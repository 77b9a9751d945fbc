//! The process dies in every phase of a turn and starts again on the same store.

use folio_resources::{Resource as _, TagChange};

use super::*;

/// Waits until the sweep has ended the turn, without any request.
pub(super) async fn wait_for_end(sandbox: &Sandbox, turn: &TurnId) {
    sandbox.ended(&turn.thread).await;
    wait_for("the end of the turn", SOON, || async {
        (sandbox.turn(turn).await.status != TurnStatus::Running).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_approved_write_happens_once_after_a_crash_at_any_step() {
    let stages = ["decide", "plan", "intent", "write", "outcome", "model", "end"];
    for point in stages.into_iter().flat_map(|stage| ["before", "after"].map(|position| format!("{stage}:{position}")))
    {
        let point = point.as_str();
        let mut sandbox = Sandbox::start().await;
        let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "once"}))).await;
        sandbox.models.then([say("Made."), say("Made.")]);
        let command = approve_all(&turn, &pending);
        sandbox.crash_at(point, |sandbox| sandbox.spawn_approve(command.clone())).await;
        // Repeated decisions join the turn, take it over, or return the recorded answer.
        let answer = sandbox.approve_with(command.clone()).await.unwrap();
        let mut reached = reached(answer);
        if matches!(reached, EventKind::Failed { retriable: true, .. }) {
            let resumed = all(sandbox.conversations.resume(&sandbox.principal, &turn).await.unwrap()).await;
            reached = closing(&resumed).clone();
        }
        assert!(matches!(reached, EventKind::Completed { .. }), "{point}: {reached:?}");
        assert_eq!(sandbox.tag_names().await, ["once"], "invariant 3 at {point}");
        let view = sandbox.turn(&turn).await;
        assert_eq!(view.rounds[0].results[0].status, CallStatus::Ok, "{point}");
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
    let first = sandbox.spawn_approve(command.clone());
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
    wait_for_end(&sandbox, &turn).await;
    let view = sandbox.turn(&turn).await;
    assert_eq!(view.rounds[0].results[0].status, CallStatus::Failed, "{:?}", view.rounds[0].results);
    assert_eq!(sandbox.tag_names().await, ["another"]);
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn index_rows_are_removed_after_their_turns_ended() {
    let mut sandbox = Sandbox::start().await;
    sandbox.models.then([Step::Hang, say("Second.")]);
    let chat = ChatCommand { request_id: request("r-1"), ..sandbox.chat("x") };
    let stream = sandbox.begin(chat.clone()).await;
    sandbox.wait_for_model_calls(1).await;
    assert_eq!(sandbox.open_rows().await.len(), 1);
    sandbox.restart().await;
    drop(stream);
    sandbox.run(chat).await;
    sandbox.wait_for_empty_index().await;
    let thread = sandbox.newest_thread().await;
    let resumed = sandbox.journal(&thread).await.into_iter().filter(|e| matches!(e, Entry::Resumed(_))).count();
    assert!(resumed >= 1, "a takeover is an append");
    sandbox.finish().await;
}
