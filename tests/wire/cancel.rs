//! Cancelling a turn in each of its states.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::usage_service_client::UsageServiceClient;
use folio_types::Code;
use futures::StreamExt as _;
use llm_sim::{Fault, FaultPlan, Outcome};

use crate::client::{approved, decide, outline, refused};
use crate::sandbox::{Sandbox, Setup};

const SCRIPT: &str = "
rules:
  - when: {user: before}
    fault: {hold: {gate: g}}
    answer: {text: never seen}
  - when: {user: amid}
    fault: {hold: {gate: g, after_chunks: 4}}
    answer: {text: one two three four five six seven eight}
  - when: {user: write}
    rounds:
      - calls: [{name: create_tag, arguments: {name: made}}]
      - text: Done.
  - when: {user: both}
    answer: {calls: [{name: create_tag, arguments: {name: made}}, {name: create_tag, arguments: {name: too}}]}
  - when: {user: after, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: never seen}
  - when: {user: after}
    answer: {calls: [{name: create_tag, arguments: {name: made}}]}
  - when: {system: {contains: You extract data}}
    fault: {hold: {gate: g}}
    answer: {text: '{\"total\": 1}'}
  - when: {user: extract}
    rounds:
      - calls: [{name: create_prompt, arguments: {name: P, content: Extract.}}]
      - calls: [{name: run_extraction}]
      - text: Done.
  - when: {user: hello}
    answer: {text: Hello.}
";

#[tokio::test]
async fn a_turn_is_cancelled_before_and_amid_the_models_answer_and_the_upstream_request_stops() {
    for text in ["before", "amid"] {
        let sandbox = Sandbox::start(SCRIPT).await;
        let (client, document) = sandbox.with_document().await;
        let mut stream = client.chat(&document, text).await;
        sandbox.sim.until_held().await;
        if text == "amid" {
            stream.until("text_delta").await;
        }
        let (turn, thread) = (stream.turn(), stream.thread());
        assert_eq!(client.cancel(&turn).await.unwrap().status(), v1::TurnStatus::Cancelled);
        assert_eq!(outline(&stream.end().await).last(), Some(&"cancelled"));
        let left = |chats: &[llm_sim::Recorded]| chats.iter().all(|chat| chat.outcome == Outcome::ClosedByClient);
        sandbox.sim.until("the end of the upstream request", left).await;
        // A repetition changes nothing, and the thread accepts the next chat.
        assert_eq!(client.cancel(&turn).await.unwrap().status(), v1::TurnStatus::Cancelled);
        assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
    }
}

#[tokio::test]
async fn a_waiting_turn_is_cancelled_and_its_calls_never_run() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "write").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    client.cancel(&waiting.turn_id).await.unwrap();
    let error = refused(client.approve(decide(&waiting, approved)).await);
    assert_eq!((error.code, error.reason.as_str()), (Code::FailedPrecondition, "TURN_ENDED"), "{error:?}");
    assert!(client.tag_names().await.is_empty(), "invariant 2");
    // The history has a result for the cancelled call: llm-sim refuses any other (invariant 4).
    assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("create_tag") && sent.to_lowercase().contains("cancel"), "{sent}");
}

#[tokio::test]
async fn cancelling_after_an_effect_keeps_the_effect_in_the_history() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "after").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    let approving = {
        let (client, request) = (client.clone(), decide(&waiting, approved));
        tokio::spawn(async move { client.approve(request).await })
    };
    sandbox.sim.until_held().await;
    client.cancel(&waiting.turn_id).await.unwrap();
    let answer = approving.await.unwrap().unwrap();
    assert!(matches!(answer.outcome, Some(v1::approve_response::Outcome::Cancelled(_))), "{answer:?}");
    assert_eq!(client.tag_names().await, ["made"]);
    client.say(&thread, "hello").await.completed().await;
    let sent = sandbox.sim.chats().await.pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("tag_id"), "the result of the call that ran: {sent}");
}

#[tokio::test]
async fn a_turn_is_cancelled_while_a_tool_runs() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let request = v1::ChatRequest { auto_approve: true, ..crate::client::ask(&document, "extract") };
    let stream = client.send(request).await.unwrap();
    let (turn, thread) = (stream.turn(), stream.thread());
    sandbox.sim.until_held().await;
    client.cancel(&turn).await.unwrap();
    assert_eq!(outline(&stream.end().await).last(), Some(&"cancelled"));
    let list = v1::ListExtractionsRequest { document_id: document.clone(), ..Default::default() };
    let kept = client.extractions.clone().list_extractions(list.clone()).await.unwrap().into_inner().extractions.len();
    sandbox.sim.open("g").await;
    client.say(&thread, "hello").await.completed().await;
    let after = client.extractions.clone().list_extractions(list).await.unwrap().into_inner().extractions.len();
    assert_eq!((kept, after), (0, 0), "an effect that the history does not know never happens");
}

#[tokio::test]
async fn a_turn_that_ended_is_given_as_it_is() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "hello").await;
    let turn = stream.turn();
    stream.completed().await;
    assert_eq!(client.cancel(&turn).await.unwrap().status(), v1::TurnStatus::Completed);
    let (thread, _) = turn.rsplit_once('.').unwrap();
    let error = refused(client.cancel(&format!("{thread}.99")).await);
    assert_eq!((error.code, error.reason.as_str()), (Code::NotFound, "NOT_FOUND"));
}

#[tokio::test]
async fn a_partly_decided_turn_is_cancelled_and_runs_nothing() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "both").await;
    let thread = stream.thread();
    let waiting = stream.pause().await;
    let part = v1::ApproveRequest {
        decisions: vec![crate::client::on(&waiting.pending[0], approved())],
        ..decide(&waiting, approved)
    };
    client.approve(part).await.unwrap();
    let turn = client.cancel(&waiting.turn_id).await.unwrap();
    assert_eq!(turn.status(), v1::TurnStatus::Cancelled);
    let statuses: Vec<_> = turn.rounds[0].results.iter().map(v1::CallResult::status).collect();
    assert_eq!(statuses, [v1::CallStatus::Cancelled, v1::CallStatus::Cancelled], "invariant 4");
    assert!(client.tag_names().await.is_empty(), "invariant 2");
    assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
}

#[tokio::test]
async fn a_turn_that_ended_otherwise_keeps_its_end() {
    let setup = Setup::new(SCRIPT).with("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", 1);
    let sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    let expired = client.chat(&document, "write").await.pause().await.turn_id;
    client.until(&expired, v1::TurnStatus::Expired).await;
    let stream = client.chat(&document, "write").await;
    let (superseded, thread) = (stream.turn(), stream.thread());
    stream.pause().await;
    let next = v1::ChatRequest {
        thread_id: thread,
        text: "hello".into(),
        if_pending: v1::IfPending::Supersede.into(),
        ..Default::default()
    };
    client.send(next).await.unwrap().completed().await;
    sandbox.sim.faults(&FaultPlan::always(Fault::Status { code: 500, retry_after: None, body: None })).await;
    let stream = client.chat(&document, "hello").await;
    let failed = stream.turn();
    assert!(stream.failed().await.retriable);
    sandbox.sim.faults(&FaultPlan::none()).await;
    for (turn, status) in [
        (&expired, v1::TurnStatus::Expired),
        (&superseded, v1::TurnStatus::Superseded),
        (&failed, v1::TurnStatus::Failed),
    ] {
        assert_eq!(client.cancel(turn).await.unwrap().status(), status);
        assert_eq!(client.turn(turn).await.status(), status);
    }
    // Such a cancel changes nothing: the failed turn can still be resumed.
    assert_eq!(client.resume(&failed).await.unwrap().completed().await.text, "Hello.");
}

#[tokio::test]
async fn a_cancel_and_an_approval_at_once_leave_one_story() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let other = sandbox.client().await;
    for _ in 0..4 {
        let stream = client.chat(&document, "write").await;
        let thread = stream.thread();
        let waiting = stream.pause().await;
        let before = client.tag_names().await.len();
        let request = decide(&waiting, || crate::client::edited(&serde_json::json!({"name": format!("t{before}")})));
        let (cancelled, twice, answer) =
            tokio::join!(other.cancel(&waiting.turn_id), other.cancel(&waiting.turn_id), client.approve(request));
        let (cancelled, twice) = (cancelled.unwrap(), twice.unwrap());
        assert_eq!(cancelled.status(), twice.status(), "both are told the same end");
        let ran = client.tag_names().await.len() - before;
        let round = &client.turn(&waiting.turn_id).await.rounds[0];
        let told = round.results[0].status();
        // The history knows of the effect if, and only if, it happened.
        assert_eq!(ran, usize::from(told == v1::CallStatus::Ok), "{told:?}");
        match answer {
            Ok(answer) => assert!(
                matches!(
                    answer.outcome,
                    Some(v1::approve_response::Outcome::Cancelled(_) | v1::approve_response::Outcome::Completed(_))
                ),
                "{answer:?}"
            ),
            Err(status) => {
                assert_eq!(refused::<()>(Err(status)).reason.as_str(), "TURN_ENDED");
                assert_eq!(ran, 0, "invariant 2");
            }
        }
        assert_eq!(client.say(&thread, "hello").await.completed().await.text, "Hello.");
    }
}

#[tokio::test]
async fn invariant_5_a_call_whose_turn_was_cancelled_is_cut_or_read_to_its_end_and_charged() {
    for (policy, completed, basis) in
        [("cut", false, v1::UsageBasis::Counted), ("drain", true, v1::UsageBasis::Reported)]
    {
        let sandbox = Setup::new(SCRIPT).with("FOLIO_CREDIT__ABANDONED_CALLS", policy).start().await;
        let (client, document) = sandbox.with_document().await;
        let stream = client.chat(&document, "amid").await;
        sandbox.sim.until_held().await;
        assert_eq!(client.cancel(&stream.turn()).await.unwrap().status(), v1::TurnStatus::Cancelled);
        sandbox.sim.open("g").await;
        let mut usages = UsageServiceClient::new(client.channel.clone());
        let entries = async || {
            let sent = usages.clone().download_usage(v1::DownloadUsageRequest::default()).await.unwrap();
            let sent: Vec<_> = sent.into_inner().map(|part| part.unwrap().entries).collect().await;
            Some(sent.concat()).filter(|entries| !entries.is_empty())
        };
        let entries = folio_testkit::wait_for("the record of the call", Duration::from_secs(20), entries).await;
        assert_eq!((entries.len(), entries[0].completed, entries[0].basis()), (1, completed, basis), "{policy}");
        assert!(entries[0].credits > 0, "{entries:?}");
        let balance = usages.get_balance(v1::GetBalanceRequest::default()).await.unwrap().into_inner();
        assert_eq!(balance.granted - balance.expired, balance.available + balance.in_blocks + balance.settled);
    }
}

#[tokio::test]
async fn invariant_5_a_call_that_waits_for_its_turn_is_not_made_once_that_is_cancelled() {
    for policy in ["cut", "drain"] {
        let setup = Setup::new(SCRIPT).with("FOLIO_CREDIT__ABANDONED_CALLS", policy);
        let sandbox = setup.with("FOLIO_MODELS__PROVIDERS__SIM__MAX_CONCURRENT_CALLS", "1").start().await;
        let (client, document) = sandbox.with_document().await;
        let first = client.chat(&document, "amid").await;
        sandbox.sim.until_held().await;
        let mut waits = client.chat(&document, "before").await;
        waits.until("round_started").await;
        assert_eq!(client.cancel(&waits.turn()).await.unwrap().status(), v1::TurnStatus::Cancelled);
        sandbox.sim.open("g").await;
        first.completed().await;
        // Calls of one organization are made in the order in which they came: it would have been made by now.
        client.chat(&document, "hello").await.completed().await;
        let asked = sandbox.sim.chats().await;
        let said: Vec<_> = asked
            .iter()
            .map(|chat| chat.body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap())
            .collect();
        assert_eq!(said, ["amid", "hello"], "{policy}");
    }
}
