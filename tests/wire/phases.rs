//! The server dies at each step of the protocol, before and after it: the turn ends correctly after a restart, and
//! its effect exists once (invariants 3, 4, 7, 8).

use folio_proto::v1;

use crate::client::{Client, approved, ask, decide};
use crate::sandbox::{Sandbox, Setup};

const SCRIPT: &str = "
rules:
  - when: {user: work}
    rounds:
      - calls: [{name: list_tags}]
      - calls: [{name: create_tag, arguments: {name: made}}]
      - text: Worked.
  - when: {system: {contains: You extract data}}
    fault: {hold: {gate: g}}
    answer: {text: '{\"total\": 957}'}
  - when: {user: extract}
    rounds:
      - calls: [{name: create_prompt, arguments: {name: P, content: Extract the total.}}]
      - calls: [{name: run_extraction}]
      - text: Extracted.
  - when: {user: hello}
    answer: {text: Hello.}
";

/// One turn with a read-only round, a pause, an approved write and an answer.
fn turn(document: &str) -> v1::ChatRequest {
    v1::ChatRequest { request_id: "the-turn".into(), ..ask(document, "work") }
}

/// Drives the turn until it is completed or the server is dead: repeats the request, approves, and resumes.
async fn drive(client: &Client, document: &str) -> Result<v1::Turn, tonic::Status> {
    let events = client.send(turn(document)).await?;
    let id = events.turn();
    let _ = events.drain().await?;
    loop {
        let found = client.try_turn(&id).await?;
        match found.status() {
            v1::TurnStatus::Running => {
                let _ = client.watch(&id, found.next_event).await?.drain().await?;
            }
            v1::TurnStatus::AwaitingApproval => {
                let waiting = v1::AwaitingApproval {
                    turn_id: id.clone(),
                    round: found.rounds.last().map_or(0, |round| round.round),
                    pending: found.pending,
                    expire_time: found.expire_time,
                };
                client.approve(decide(&waiting, approved)).await?;
            }
            v1::TurnStatus::Failed => {
                assert!(found.retriable, "{found:?}");
                let _ = client.resume(&id).await?.drain().await?;
            }
            _ => return Ok(found),
        }
    }
}

/// Checks that the turn ended as if nothing had happened.
async fn check(sandbox: &Sandbox, client: &Client, document: &str, point: &str) {
    let found = drive(client, document).await.unwrap_or_else(|status| panic!("{point}: {status:?}"));
    assert_eq!((found.status(), found.text.as_str()), (v1::TurnStatus::Completed, "Worked."), "{point}");
    assert_eq!(client.tag_names().await, ["made"], "{point}: the effect exists once");
    let results: Vec<_> = found.rounds.iter().flat_map(|round| &round.results).map(v1::CallResult::status).collect();
    assert_eq!(results, [v1::CallStatus::Ok, v1::CallStatus::Ok], "{point}");
    // llm-sim refuses a history in which a call has no result.
    assert_eq!(client.say(&found.thread_id, "hello").await.completed().await.text, "Hello.", "{point}");
    let sent = sandbox.sim.chat_requests().await.pop().expect("a request").body["messages"].to_string();
    assert_eq!(sent.matches("\"create_tag\"").count(), 1, "{point}: {sent}");
}

/// Runs the turn until the server dies at a point (after an earlier death at another, if given), then to its end.
async fn run_with_crash(failpoint: &str, next_failpoint: Option<&str>) {
    let mut sandbox = Setup::new(SCRIPT).with("FOLIO_FAILPOINT", failpoint).start().await;
    let (client, document) = sandbox.with_document().await;
    let ended = drive(&client, &document).await;
    assert!(ended.is_err(), "{failpoint} was never reached");
    sandbox.wait_until_dead().await;
    if let Some(next) = next_failpoint {
        sandbox.fail_at(Some(next));
        if sandbox.try_start_folio().is_ok()
            && let Ok(client) = Client::try_connect(&sandbox.url(), Some(&sandbox.token())).await
        {
            let ended = drive(&client, &document).await;
            assert!(ended.is_err(), "{next} was never reached after {failpoint}");
        }
        sandbox.wait_until_dead().await;
    }
    sandbox.fail_at(None);
    let client = sandbox.restart().await;
    check(&sandbox, &client, &document, failpoint).await;
}

macro_rules! points {
    ($($name:ident: $point:literal $(then $next:literal)?;)+) => {
        $(#[tokio::test]
        async fn $name() {
            #[allow(unused_mut, unused_assignments, reason = "some points have no second one")]
            let mut next = None;
            $(next = Some($next);)?
            run_with_crash($point, next).await;
        })+
    };
}

points! {
    before_the_turn_is_accepted: "accept:before";
    after_the_turn_is_accepted: "accept:after";
    before_the_first_model_call: "model:before";
    after_the_first_model_call: "model:after";
    before_a_read_only_call: "read:before";
    after_a_read_only_call: "read:after";
    before_the_second_model_call: "model:before#2";
    after_the_second_model_call: "model:after#2";
    before_the_pause: "pause:before";
    after_the_pause: "pause:after";
    before_the_decisions: "decide:before";
    after_the_decisions: "decide:after";
    before_the_write_is_planned: "plan:before";
    after_the_write_is_planned: "plan:after";
    before_the_intent: "intent:before";
    after_the_intent: "intent:after";
    before_the_write: "write:before";
    after_the_write: "write:after";
    before_the_outcome: "outcome:before";
    after_the_outcome: "outcome:after";
    before_the_model_call_after_the_effect: "model:before#3";
    after_the_model_call_after_the_effect: "model:after#3";
    before_the_end: "end:before";
    after_the_end: "end:after";
    after_the_intent_and_in_recovery: "intent:after" then "recover:before";
    after_the_write_and_in_recovery: "write:after" then "recover:after";
    amid_a_model_call_and_before_its_failed_end: "model:after" then "end:before";
    amid_a_model_call_and_before_it_is_resumed: "model:after" then "resume:before";
    amid_a_model_call_and_after_it_is_resumed: "model:after#2" then "resume:after";
}

#[tokio::test]
async fn a_cancel_interrupted_while_closing_is_finished_and_runs_nothing_more() {
    for point in ["closing:before", "closing:after", "close:before", "close:after", "end:before"] {
        let mut sandbox = Setup::new(SCRIPT).with("FOLIO_FAILPOINT", point).start().await;
        let (client, document) = sandbox.with_document().await;
        let request = v1::ChatRequest { auto_approve: true, ..ask(&document, "extract") };
        let stream = client.send(request).await.unwrap();
        let turn = stream.turn();
        sandbox.sim.wait_for_waiting_request().await;
        assert!(client.cancel(&turn).await.is_err(), "{point} was never reached");
        sandbox.wait_until_dead().await;
        drop(stream);
        sandbox.fail_at(None);
        let client = sandbox.restart().await;
        sandbox.sim.open_gate("g").await;
        let found = folio_testkit::wait_for("an ended turn", crate::LIMIT, || async {
            let found = client.turn(&turn).await;
            (found.status() != v1::TurnStatus::Running).then_some(found)
        })
        .await;
        let list = v1::ListExtractionsRequest { document_id: document, ..Default::default() };
        let made = client.extractions.clone().list_extractions(list).await.unwrap().into_inner().extractions.len();
        if point == "closing:before" {
            // The cancel was not recorded: the approved call ran, and the turn failed like any turn of a lost node.
            assert_eq!((found.status(), found.retriable, made), (v1::TurnStatus::Failed, true, 1), "{point}");
        } else {
            assert_eq!((found.status(), made), (v1::TurnStatus::Cancelled, 0), "{point}");
        }
        assert_eq!(client.say(&found.thread_id, "hello").await.completed().await.text, "Hello.", "{point}");
    }
}
