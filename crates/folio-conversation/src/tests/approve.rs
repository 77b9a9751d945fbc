//! Pausing and deciding.

use folio_metering::AbandonedCalls;

use super::flaky::{FailingRemoval, Unreadable};
use super::*;

fn reject(reason: &str) -> Decision {
    Decision::Reject { reason: Some(reason.to_owned()) }
}

#[tokio::test]
async fn a_write_waits_runs_when_approved_and_the_model_continues() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "invoices"}))).await;
    assert!(pending[0].needs_approval && pending[0].digest == Digest::of_json(&json!({"name": "invoices"})));
    assert!(sandbox.tag_names().await.is_empty(), "invariant 2");
    assert_eq!(sandbox.turn(&turn).await.status, TurnStatus::AwaitingApproval);

    sandbox.models.then([say("Made it.")]);
    let before = sandbox.header(&turn.thread).await.version;
    let answer = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    let ApproveAnswer::Reached { closing, round } = &answer else { panic!("{answer:?}") };
    assert!(matches!(&closing.kind, EventKind::Completed { text, .. } if text == "Made it."), "{answer:?}");
    assert_eq!(round.results[0].status, CallStatus::Ok);
    assert_eq!(sandbox.tag_names().await, ["invoices"]);
    let header = sandbox.header(&turn.thread).await;
    assert_eq!(header.version - before, 2, "decisions with the intent, outcome with the end");
    let repeated = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    assert_eq!(repeated, answer, "invariant 7");
    assert_eq!(sandbox.tag_names().await, ["invoices"], "invariant 3");
    let changed = decide(&turn, &[(&pending[0], reject("no"))]);
    assert_eq!(sandbox.approve_with(changed).await.unwrap_err().reason, Reason::DecisionConflict);
    sandbox.assert_sendable(&turn.thread).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn edited_arguments_are_validated_and_returned() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "draft"}))).await;
    let edit = |arguments| decide(&turn, &[(&pending[0], Decision::ApproveEdited { arguments })]);
    let error = sandbox.approve_with(edit(json!({"nom": 1}))).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    sandbox.models.then([say("Edited.")]);
    let closing = reached(sandbox.approve_with(edit(json!({"name": "final"}))).await.unwrap());
    let EventKind::Completed { rounds, .. } = closing else { panic!("{closing:?}") };
    assert_eq!(rounds[0].calls[0].arguments, json!({"name": "final"}));
    assert_eq!(sandbox.tag_names().await, ["final"]);
    sandbox.finish().await;
}

#[tokio::test]
async fn the_sweep_ends_an_expired_pause_and_removes_its_row() {
    let sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    assert_eq!(sandbox.open_rows().await.len(), 1);
    sandbox.environment.advance(Duration::from_secs(301));
    wait_for("the sweep", SOON, || async {
        let ended = sandbox.header(&turn.thread).await.open_turn.is_none();
        (ended && sandbox.open_rows().await.is_empty()).then_some(())
    })
    .await;
    assert!(matches!(sandbox.journal(&turn.thread).await.last(), Some(Entry::Ended(_))), "invariant 8");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_next_sweep_removes_the_row_of_an_ended_turn_whose_removal_failed() {
    let wrap = |stores: &mut Stores| stores.open_turns = FailingRemoval::over(&stores.open_turns);
    let options = Options { sweep_interval: Duration::from_millis(50), ..Options::default() };
    let sandbox = Sandbox::start_as(options, None, Some(Box::new(wrap)), AbandonedCalls::Abort).await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    // Sweeps find the turn waiting, and check it again only when its pause expires.
    let sweeps = sandbox.conversations.snapshot().sweeps;
    wait_for("two sweeps", SOON, || async { (sandbox.conversations.snapshot().sweeps > sweeps + 2).then_some(()) })
        .await;
    sandbox.models.then([say("Done.")]);
    reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    wait_for("the removal", SOON, || async { sandbox.open_rows().await.is_empty().then_some(()) }).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn an_unreadable_thread_does_not_stop_the_sweep_of_the_others() {
    let unreadable = Arc::new(Unreadable::default());
    let wrap = |stores: &mut Stores| stores.threads = Layered::over(unreadable.clone(), &stores.threads);
    let options = Options { sweep_interval: Duration::from_millis(50), ..Options::default() };
    let mut sandbox = Sandbox::start_as(options, None, Some(Box::new(wrap)), AbandonedCalls::Abort).await;
    for name in ["a", "b"] {
        sandbox.pause_at(call("create_tag", json!({"name": name}))).await;
    }
    let rows = sandbox.open_rows().await;
    let [first, second] = &rows[..] else { panic!("two open turns") };
    *unreadable.0.lock().unwrap() = Some(first.turn.thread.clone());
    // No conversation is in memory, so only the sweep finds the turns.
    sandbox.restart().await;
    sandbox.environment.advance(Duration::from_secs(301));
    wait_for("the end of the readable turn", SOON, || async {
        let rows = sandbox.open_rows().await;
        (!rows.iter().any(|row| row.turn == second.turn)).then_some(())
    })
    .await;
    assert_eq!(sandbox.open_rows().await.len(), 1, "the other turn is unchanged");
    *unreadable.0.lock().unwrap() = None;
    wait_for("the end of both turns", SOON, || async { sandbox.open_rows().await.is_empty().then_some(()) }).await;
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_may_delete_its_own_document_and_still_ends_completed() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("delete_document", json!({}))).await;
    sandbox.models.then([say("It is deleted.")]);
    let closing = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    assert!(matches!(closing, EventKind::Completed { .. }), "{closing:?}");
    assert!(sandbox.models.requests().pop().unwrap().system.contains("The document was deleted."));
    sandbox.finish().await;
}
