//! `kill -9` in each phase of a turn, and a restart on the same data: invariants 3 and 8.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;

use crate::client::{approved, decide, outline};
use crate::sandbox::{Sandbox, Setup};

/// The gate `g` holds requests until it is opened.
const SCRIPT: &str = "
rules:
  - when: {user: before}
    fault: {hold: {gate: g}}
    answer: {text: Answered.}
  - when: {user: amid}
    fault: {hold: {gate: g, after_chunks: 4}}
    answer: {text: one two three four five six seven eight}
  - when: {user: between, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: Looked.}
  - when: {user: between}
    answer: {calls: [{name: list_tags}]}
  - when: {user: write, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: Made.}
  - when: {user: write}
    answer: {calls: [{name: create_tag, arguments: {name: made}}, {name: create_tag, arguments: {name: too}}]}
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

#[tokio::test]
async fn killed_during_a_model_call_the_turn_fails_retriably_and_is_resumed() {
    for text in ["before", "amid", "between"] {
        let mut sandbox = Sandbox::start(SCRIPT).await;
        let (client, document) = sandbox.with_document().await;
        let stream = client.chat(&document, text).await;
        let (turn, thread) = (stream.turn(), stream.thread());
        sandbox.sim.until_held().await;
        sandbox.kill();
        drop(stream);

        let client = sandbox.restart().await;
        let found = client.until(&turn, v1::TurnStatus::Failed).await;
        assert!(found.retriable, "{text}: {found:?}");
        assert_eq!(found.error.unwrap().reason, "NODE_LOST", "{text}");
        sandbox.sim.open("g").await;
        let completed = client.resume(&turn).await.unwrap().completed().await;
        assert!(!completed.text.is_empty());
        assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Completed);
        let thread = client.thread(&thread).await;
        assert!(thread.pending_turn.is_none());
        let roles: Vec<_> = thread.messages.iter().map(|message| message.kind.is_some()).collect();
        assert!(roles.len() >= 2 && roles.iter().all(|there| *there));
    }
}

#[tokio::test]
async fn killed_while_it_waits_a_turn_is_approved_after_the_restart() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "write").await.pause().await;
    sandbox.kill();
    let client = sandbox.restart().await;
    let found = client.turn(&waiting.turn_id).await;
    assert_eq!(found.status(), v1::TurnStatus::AwaitingApproval);
    assert_eq!(found.pending, waiting.pending);
    sandbox.sim.open("g").await;
    let answer = client.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    let mut names = client.tag_names().await;
    names.sort();
    assert_eq!(names, ["made", "too"]);
}

#[tokio::test]
async fn invariant_3_killed_after_the_effects_they_are_kept_and_not_repeated() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "write").await.pause().await;
    let approving = {
        let (client, request) = (client.clone(), decide(&waiting, approved));
        tokio::spawn(async move { client.approve(request).await })
    };
    sandbox.sim.until_held().await;
    sandbox.kill();
    assert!(approving.await.unwrap().is_err());

    let client = sandbox.restart().await;
    let failed = client.until(&waiting.turn_id, v1::TurnStatus::Failed).await;
    assert!(failed.retriable);
    assert_eq!(client.tag_names().await.len(), 2);
    sandbox.sim.open("g").await;
    let events = client.resume(&waiting.turn_id).await.unwrap().end().await;
    assert_eq!(outline(&events).last(), Some(&"completed"));
    assert_eq!(client.tag_names().await.len(), 2, "no effect twice");
    // The same decisions get the answer of the resumed turn.
    let answer = client.approve_all(&waiting).await;
    assert!(matches!(&answer.outcome, Some(Outcome::Completed(completed)) if completed.text == "Made."), "{answer:?}");
}

#[tokio::test]
async fn invariant_3_killed_within_a_tool_its_effect_happens_once() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let request = v1::ChatRequest { auto_approve: true, ..crate::client::ask(&document, "extract") };
    let stream = client.send(request).await.unwrap();
    let turn = stream.turn();
    sandbox.sim.until_held().await;
    sandbox.kill();
    drop(stream);
    sandbox.sim.open("g").await;

    let client = sandbox.restart().await;
    let failed = client.until(&turn, v1::TurnStatus::Failed).await;
    assert!(failed.retriable, "{failed:?}");
    let completed = client.resume(&turn).await.unwrap().completed().await;
    assert_eq!(completed.text, "Extracted.");
    let list = v1::ListExtractionsRequest { document_id: document, ..Default::default() };
    let found = client.extractions.clone().list_extractions(list).await.unwrap().into_inner();
    assert_eq!(found.extractions.len(), 1, "{found:?}");
    assert_eq!(found.extractions[0].original_json, "{\"total\":957}");
}

#[tokio::test]
async fn killed_after_the_end_everything_is_there() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let request = v1::ChatRequest { request_id: "once".into(), ..crate::client::ask(&document, "hello") };
    let stream = client.send(request.clone()).await.unwrap();
    let turn = stream.turn();
    let completed = stream.completed().await;
    sandbox.kill();
    let client = sandbox.restart().await;
    let again = client.send(request).await.unwrap();
    assert_eq!(again.turn(), turn);
    assert_eq!(again.completed().await, completed);
    assert_eq!(sandbox.sim.chats().await.len(), 1);
    let documents = client.documents.clone().list_documents(v1::ListDocumentsRequest::default()).await.unwrap();
    assert_eq!(documents.into_inner().total_size, 1);
}

#[tokio::test]
async fn killed_many_times_in_a_row_the_server_starts_again_each_time() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (mut client, document) = sandbox.with_document().await;
    for round in 1..=4 {
        let stream = client.chat(&document, "before").await;
        let turn = stream.turn();
        sandbox.sim.until_held().await;
        sandbox.kill();
        client = sandbox.restart().await;
        client.until(&turn, v1::TurnStatus::Failed).await;
        let threads =
            client.threads.clone().list_threads(v1::ListThreadsRequest::default()).await.unwrap().into_inner();
        assert_eq!(threads.total_size, round);
    }
}

#[tokio::test]
async fn a_signal_stops_the_server_in_order_and_leaves_no_turn_running() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "write").await.pause().await;
    drop(client);
    assert!(sandbox.stop().await);
    let client = sandbox.restart().await;
    assert_eq!(client.turn(&waiting.turn_id).await.status(), v1::TurnStatus::AwaitingApproval);
}

#[tokio::test]
async fn a_signal_within_a_turn_refuses_waiting_chats_and_the_turn_resumes_after_the_restart() {
    let setup = Setup::new(SCRIPT).with("FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS", 1);
    let mut sandbox = setup.start().await;
    let (client, document) = sandbox.with_document().await;
    let running = client.chat(&document, "before").await;
    let (turn, thread) = (running.turn(), running.thread());
    sandbox.sim.until_held().await;
    let queued = {
        let (client, if_busy) = (client.clone(), v1::IfBusy::Enqueue.into());
        let request = v1::ChatRequest { thread_id: thread, text: "hello".into(), if_busy, ..Default::default() };
        tokio::spawn(async move { client.send(request).await.map(drop) })
    };
    sandbox.ask_to_stop();
    let error = crate::client::refused(crate::within("the refusal", queued).await.unwrap());
    assert_eq!(error.code, folio_types::Code::Unavailable, "{error:?}");
    sandbox.dead().await;
    drop(running);
    let client = sandbox.restart().await;
    assert!(client.until(&turn, v1::TurnStatus::Failed).await.retriable);
    sandbox.sim.open("g").await;
    assert_eq!(client.resume(&turn).await.unwrap().completed().await.text, "Answered.");
}
