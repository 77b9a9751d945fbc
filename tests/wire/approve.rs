//! Decisions: repeated, concurrent, and in parts with a kill between them.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::Code;

use crate::client::{Client, approved, decide, edited, on, refused, rejected};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: two}
    rounds:
      - calls: [{name: create_tag, arguments: {name: a}}, {name: create_tag, arguments: {name: b}}, {name: list_tags}]
      - text: Both decided.
  - when: {user: one}
    rounds:
      - calls: [{name: create_tag, arguments: {name: a}}]
      - text: Decided.
";

async fn waiting(sandbox: &Sandbox, text: &str) -> (Client, v1::AwaitingApproval) {
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, text).await.pause().await;
    (client, waiting)
}

#[tokio::test]
async fn invariant_7_the_same_decisions_get_the_same_answer_and_others_are_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "one").await;
    let first = client.approve_all(&waiting).await;
    let again = client.approve_all(&waiting).await;
    assert_eq!(first, again);
    assert_eq!(client.tag_names().await, ["a"]);
    let error = refused(client.approve(decide(&waiting, || rejected("changed my mind"))).await);
    assert_eq!(error.reason.as_str(), "DECISION_CONFLICT");
    let error = refused(client.approve(decide(&waiting, || edited(&serde_json::json!({"name": "z"})))).await);
    assert_eq!(error.reason.as_str(), "DECISION_CONFLICT");
    assert_eq!(client.tag_names().await, ["a"]);
}

#[tokio::test]
async fn invariant_3_two_clients_that_approve_at_once_make_one_effect() {
    let sandbox = Sandbox::start(SCRIPT).await;
    for _ in 0..5 {
        let (client, waiting) = waiting(&sandbox, "one").await;
        let other = sandbox.client().await;
        let before = client.tag_names().await.len();
        let request = decide(&waiting, || edited(&serde_json::json!({"name": format!("tag {before}")})));
        let (first, second) = tokio::join!(client.approve(request.clone()), other.approve(request));
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(client.tag_names().await.len(), before + 1);
    }
}

#[tokio::test]
async fn of_two_different_decisions_one_wins_and_the_other_is_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    for round in 0..5 {
        let (client, waiting) = waiting(&sandbox, "one").await;
        let other = sandbox.client().await;
        let name = format!("tag {round}");
        let approve = decide(&waiting, || edited(&serde_json::json!({"name": name})));
        let reject = decide(&waiting, || rejected("no"));
        let (first, second) = tokio::join!(client.approve(approve), other.approve(reject));
        let made = client.tag_names().await.contains(&name);
        match (first, second) {
            (Ok(_), refusal @ Err(_)) => {
                assert!(made);
                assert_eq!(refused(refusal).reason.as_str(), "DECISION_CONFLICT");
            }
            (refusal @ Err(_), Ok(_)) => {
                assert!(!made);
                assert_eq!(refused(refusal).reason.as_str(), "DECISION_CONFLICT");
            }
            both => panic!("{both:?}"),
        }
    }
}

#[tokio::test]
async fn decisions_in_parts_survive_a_kill_between_them() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "two").await;
    let part = |index: usize, decision| v1::ApproveRequest {
        decisions: vec![on(&waiting.pending[index], decision)],
        ..decide(&waiting, approved)
    };
    let first = client.approve(part(0, approved())).await.unwrap();
    sandbox.kill();
    let client = sandbox.restart().await;
    let again = client.approve(part(0, approved())).await.unwrap();
    assert_eq!(again, first, "invariant 7");
    let other = refused(client.approve(part(0, rejected("no"))).await);
    assert_eq!((other.code, other.reason.as_str()), (Code::FailedPrecondition, "DECISION_CONFLICT"));
    // A request that differs in one decision is refused whole.
    let whole = decide(&waiting, || rejected("no"));
    assert_eq!(refused(client.approve(whole).await).reason.as_str(), "DECISION_CONFLICT");
    assert!(client.tag_names().await.is_empty(), "invariant 2: nothing runs before the last");
    let last = client.approve(part(1, rejected("no"))).await.unwrap();
    assert!(matches!(last.outcome, Some(Outcome::Completed(_))), "{last:?}");
    assert_eq!(client.tag_names().await, ["a"]);
    assert_eq!(client.approve(part(0, approved())).await.unwrap(), last, "a repeated part gets the answer of the set");
}

#[tokio::test]
async fn two_clients_that_decide_a_part_each_at_once_complete_the_set() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "two").await;
    let other = sandbox.client().await;
    let part = |index: usize| v1::ApproveRequest {
        decisions: vec![on(&waiting.pending[index], approved())],
        ..decide(&waiting, approved)
    };
    let (one, two) = tokio::join!(client.approve(part(0)), other.approve(part(1)));
    let outcomes = [one, two].map(|answer| answer.unwrap().outcome.unwrap());
    let completed = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Completed(_))).count();
    let missing = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::StillAwaiting(_))).count();
    assert_eq!((completed, missing), (1, 1), "{outcomes:?}");
    let mut names = client.tag_names().await;
    names.sort();
    assert_eq!(names, ["a", "b"]);
}
