//! Pausing and deciding.

use std::time::Duration;

use folio_history::event::{EventKind, TurnStatus};
use folio_history::journal::{CallStatus, Decision, Entry};
use folio_types::{Code, Digest, Reason};
use serde_json::json;

use super::sandbox::{Sandbox, approve_all, decide, reached};
use super::script::{call, calls, say};
use folio_history::command::ApproveAnswer;

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
async fn two_concurrent_approvals_run_the_call_once_and_get_the_same_answer() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.models.then([say("Once.")]);
    let command = approve_all(&turn, &pending);
    let (one, two) = tokio::join!(sandbox.approve_with(command.clone()), sandbox.approve_with(command));
    assert_eq!(one.unwrap(), two.unwrap(), "invariant 7");
    assert_eq!(sandbox.tag_names().await, ["a"], "invariant 3");
    let intents = sandbox.journal(&turn.thread).await.into_iter().filter(|e| matches!(e, Entry::Intent(_))).count();
    assert_eq!(intents, 1);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_and_the_answer_to_its_approval_are_kept_for_a_day() {
    let mut sandbox = Sandbox::start().await;
    let (late, undecided) = sandbox.pause_at(call("create_tag", json!({"name": "never"}))).await;
    let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    sandbox.models.then([say("Made it.")]);
    let answer = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    for restarts in [false, true] {
        sandbox.environment.advance(Duration::from_secs(12 * 60 * 60 - 60));
        if restarts {
            sandbox.restart().await;
        }
        // A recorded decision is answered although the pause has expired since.
        assert_eq!(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap(), answer, "invariant 7");
        let other = decide(&turn, &[(&pending[0], reject("no"))]);
        assert_eq!(sandbox.approve_with(other).await.unwrap_err().reason, Reason::DecisionConflict);
        let error = sandbox.approve_with(approve_all(&late, &undecided)).await.unwrap_err();
        assert_eq!((error.code, error.reason), (Code::NotFound, Reason::TurnExpired));
        assert_eq!(sandbox.turn(&late).await.status, TurnStatus::Expired);
    }
    assert_eq!(sandbox.tag_names().await, ["a"], "invariant 3");
    sandbox.finish().await;
}

#[tokio::test]
async fn the_sweep_ends_an_expired_pause_and_removes_its_row() {
    let sandbox = Sandbox::start().await;
    let (turn, _) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
    assert_eq!(sandbox.open_rows().await.len(), 1);
    sandbox.environment.advance(Duration::from_secs(301));
    folio_testkit::wait_for("the sweep", super::sandbox::SOON, || async {
        let ended = sandbox.header(&turn.thread).await.open_turn.is_none();
        (ended && sandbox.open_rows().await.is_empty()).then_some(())
    })
    .await;
    assert!(matches!(sandbox.journal(&turn.thread).await.last(), Some(Entry::Ended(_))), "invariant 8");
    sandbox.finish().await;
}

#[tokio::test]
async fn an_expected_failure_of_a_write_is_reported_to_the_model() {
    let sandbox = Sandbox::start().await;
    let twice = calls(&[("create_tag", json!({"name": "same"})), ("create_tag", json!({"name": "Same"}))]);
    let (turn, pending) = sandbox.pause_at(twice).await;
    sandbox.models.then([say("One failed.")]);
    let answer = sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap();
    let ApproveAnswer::Reached { round, .. } = &answer else { panic!("{answer:?}") };
    let statuses: Vec<CallStatus> = round.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [CallStatus::Ok, CallStatus::Failed]);
    assert_eq!(sandbox.tag_names().await, ["same"]);
    sandbox.finish().await;
}

#[tokio::test]
async fn a_turn_may_delete_its_own_document_and_still_ends_completed() {
    let sandbox = Sandbox::start().await;
    let (turn, pending) = sandbox.pause_at(call("delete_document", json!({}))).await;
    sandbox.models.then([say("It is deleted.")]);
    let closing = reached(sandbox.approve_with(approve_all(&turn, &pending)).await.unwrap());
    assert!(matches!(closing, EventKind::Completed { .. }), "{closing:?}");
    assert!(sandbox.models.requests().pop().unwrap().system.contains("It was deleted."));
    sandbox.finish().await;
}
