//! Decisions: partial, repeated, concurrent and invalid ones.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::Code;

use crate::client::{Client, approved, decide, edited, on, refused, rejected};
use crate::sandbox::{Sandbox, Setup};

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
  - when: {user: chain}
    rounds:
      - calls: [{name: create_tag, arguments: {name: first}}]
      - calls: [{name: list_tags}]
      - calls: [{name: list_schemas}]
      - calls: [{name: create_tag, arguments: {name: second}}]
      - text: The end.
";

async fn waiting(sandbox: &Sandbox, text: &str) -> (Client, v1::AwaitingApproval) {
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, text).await.pause().await;
    (client, waiting)
}

#[tokio::test]
async fn decisions_may_come_in_parts_and_nothing_runs_before_the_last() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "two").await;
    let part = |decision| v1::ApproveRequest {
        turn_id: waiting.turn_id.clone(),
        round: waiting.round,
        decisions: vec![decision],
        ..Default::default()
    };
    let first = client.approve(part(on(&waiting.pending[0], approved()))).await.unwrap();
    let Some(Outcome::StillAwaiting(still)) = first.outcome else { panic!("{first:?}") };
    assert_eq!(still.missing.iter().map(|call| &call.call_id).collect::<Vec<_>>(), [&waiting.pending[1].call_id]);
    assert!(client.tag_names().await.is_empty());

    let second = client.approve(part(on(&waiting.pending[1], rejected("no")))).await.unwrap();
    let Some(Outcome::Completed(_)) = second.outcome else { panic!("{second:?}") };
    let statuses: Vec<_> = second.round.unwrap().results.iter().map(v1::CallResult::status).collect();
    assert_eq!(statuses, [v1::CallStatus::Ok, v1::CallStatus::Rejected, v1::CallStatus::Ok]);
    assert_eq!(client.tag_names().await, ["a"]);
}

#[tokio::test]
async fn undecided_calls_can_be_rejected_at_once() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "two").await;
    let request = v1::ApproveRequest {
        decisions: vec![on(&waiting.pending[1], approved())],
        undecided: v1::Undecided::Reject.into(),
        ..decide(&waiting, approved)
    };
    let answer = client.approve(request).await.unwrap();
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    assert_eq!(client.tag_names().await, ["b"]);
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
async fn of_two_clients_that_decide_differently_one_wins_and_the_other_is_refused() {
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
async fn decisions_that_fit_no_waiting_call_are_refused() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "one").await;
    let good = decide(&waiting, approved);
    let changed = |change: &dyn Fn(&mut v1::ApproveRequest)| {
        let mut request = good.clone();
        change(&mut request);
        request
    };
    let other_turn = |id: &str| {
        let (thread, number) = id.rsplit_once('.').unwrap();
        format!("{thread}.{}", number.parse::<u32>().unwrap() + 7)
    };
    let call = waiting.pending[0].call_id.clone();
    let next_call = format!("{}.31", call.rsplit_once('.').unwrap().0);
    let digest = "0".repeat(64);
    let edit = |text: &str| changed(&|r| r.decisions[0].decision = Some(edited_text(text)));
    let invalid = |field: &'static str| (Code::InvalidArgument, "INVALID_FIELD", field);
    let arguments = "decisions[0].approved_edited.arguments_json";
    let mismatch = (Code::InvalidArgument, "SCHEMA_MISMATCH", arguments);
    let cases = [
        (
            (Code::FailedPrecondition, "DIGEST_MISMATCH", ""),
            changed(&|r| r.decisions[0].arguments_digest = digest.clone()),
        ),
        (
            (Code::InvalidArgument, "UNKNOWN_CALL", "decisions[0].call_id"),
            changed(&|r| r.decisions[0].call_id = next_call.clone()),
        ),
        (invalid("decisions[1].call_id"), changed(&|r| r.decisions.push(r.decisions[0].clone()))),
        (invalid("decisions[0].call_id"), changed(&|r| r.turn_id = other_turn(&r.turn_id))),
        // Deciding nothing is for rounds that need no approval.
        (
            invalid("round"),
            changed(&|r| {
                r.decisions.clear();
                r.round = 0;
            }),
        ),
        (invalid(arguments), edit("{")),
        (invalid(arguments), edit("[1]")),
        (mismatch, edit("{\"name\": 5}")),
        (mismatch, edit("{\"name\": \"x\", \"org\": \"y\"}")),
    ];
    for ((code, reason, field), request) in cases {
        let error = refused(client.approve(request).await);
        let named = error.violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>();
        let fields = if field.is_empty() { Vec::new() } else { vec![field] };
        assert_eq!((error.code, error.reason.as_str(), named), (code, reason, fields), "{error:?}");
        assert!(!error.message.is_empty());
    }
    assert!(client.tag_names().await.is_empty(), "invariant 2: nothing ran");
    assert_eq!(client.turn(&waiting.turn_id).await.status(), v1::TurnStatus::AwaitingApproval);
    client.approve(good).await.unwrap();
    assert_eq!(client.tag_names().await, ["a"]);
}

fn edited_text(text: &str) -> v1::decision::Decision {
    v1::decision::Decision::ApprovedEdited(v1::ApprovedEdited { arguments_json: text.to_owned() })
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

#[tokio::test]
async fn an_incomplete_set_expires_unrun() {
    let sandbox = Setup::new(SCRIPT).with("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", 2).start().await;
    let (client, waiting) = waiting(&sandbox, "two").await;
    let part =
        v1::ApproveRequest { decisions: vec![on(&waiting.pending[0], approved())], ..decide(&waiting, approved) };
    let answer = client.approve(part.clone()).await.unwrap();
    assert!(matches!(answer.outcome, Some(Outcome::StillAwaiting(_))), "{answer:?}");
    client.until(&waiting.turn_id, v1::TurnStatus::Expired).await;
    let error = refused(client.approve(decide(&waiting, approved)).await);
    assert_eq!((error.code, error.reason.as_str()), (Code::NotFound, "TURN_EXPIRED"), "{error:?}");
    // What is recorded has its recorded answer: the end of the turn.
    let answer = client.approve(part).await.unwrap();
    assert!(matches!(answer.outcome, Some(Outcome::Expired(_))), "{answer:?}");
    assert!(client.tag_names().await.is_empty(), "invariant 2");
}

#[tokio::test]
async fn an_approval_may_continue_through_rounds_without_pending_calls() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "chain").await;
    let request = v1::ApproveRequest { continue_auto_approved: true, ..decide(&waiting, approved) };
    let answer = client.approve(request.clone()).await.unwrap();
    let Some(Outcome::AwaitingApproval(next)) = answer.outcome.clone() else { panic!("{answer:?}") };
    assert_eq!((next.round, next.pending[0].name.as_str()), (waiting.round + 3, "create_tag"));
    assert_eq!(sandbox.sim.chats().await.len(), 4);
    assert_eq!(client.tag_names().await, ["first"]);
    assert_eq!(client.approve(request).await.unwrap(), answer, "invariant 7");
}

#[tokio::test]
async fn each_approval_makes_one_round_and_read_only_rounds_wait_too() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, waiting) = waiting(&sandbox, "chain").await;
    let answer = client.approve_all(&waiting).await;
    let Some(Outcome::AwaitingApproval(next)) = answer.outcome else { panic!("{answer:?}") };
    assert_eq!((next.turn_id.as_str(), next.round), (waiting.turn_id.as_str(), waiting.round + 1));
    assert_eq!(
        next.pending.iter().map(|call| (call.name.as_str(), call.needs_approval)).collect::<Vec<_>>(),
        [("list_tags", false)]
    );
    assert_eq!(sandbox.sim.chats().await.len(), 2, "one model round");

    // Without decisions, and through later rounds that need none.
    let request = v1::ApproveRequest {
        turn_id: next.turn_id.clone(),
        round: next.round,
        continue_auto_approved: true,
        ..Default::default()
    };
    let answer = client.approve(request.clone()).await.unwrap();
    let Some(Outcome::AwaitingApproval(third)) = answer.outcome.clone() else { panic!("{answer:?}") };
    assert_eq!(third.pending[0].name, "create_tag");
    assert!(third.pending[0].needs_approval);
    assert_eq!(client.approve(request).await.unwrap(), answer, "invariant 7");
    let end = client.approve_all(&third).await;
    assert!(matches!(end.outcome, Some(Outcome::Completed(_))), "{end:?}");
    let mut names = client.tag_names().await;
    names.sort();
    assert_eq!(names, ["first", "second"]);
}

#[tokio::test]
async fn what_is_approved_beforehand_does_not_wait() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let some =
        v1::ChatRequest { auto_approved_tools: vec!["create_tag".into()], ..crate::client::ask(&document, "one") };
    client.send(some).await.unwrap().completed().await;
    let other =
        v1::ChatRequest { auto_approved_tools: vec!["create_schema".into()], ..crate::client::ask(&document, "two") };
    client.send(other).await.unwrap().pause().await;
    let all = v1::ChatRequest { auto_approve: true, ..crate::client::ask(&document, "chain") };
    assert_eq!(client.send(all).await.unwrap().completed().await.text, "The end.");
}
