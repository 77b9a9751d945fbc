//! `kill -9` in each phase of a turn, and a restart on the same data: invariants 3 and 8.

use folio_proto::v1;

use crate::LIMIT;
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
async fn after_a_kill_during_a_model_call_the_turn_fails_retriably_and_is_resumed() {
    for text in ["before", "amid", "between"] {
        let mut sandbox = Sandbox::start(SCRIPT).await;
        let (client, document) = sandbox.with_document().await;
        let stream = client.chat(&document, text).await;
        let (turn, thread) = (stream.turn(), stream.thread());
        sandbox.sim.wait_for_waiting_request().await;
        sandbox.kill();
        drop(stream);

        let client = sandbox.restart().await;
        let found = client.until(&turn, v1::TurnStatus::Failed).await;
        assert!(found.retriable, "{text}: {found:?}");
        assert_eq!(found.error.unwrap().reason, "NODE_LOST", "{text}");
        sandbox.sim.open_gate("g").await;
        let completed = client.resume(&turn).await.unwrap().completed().await;
        assert!(!completed.text.is_empty());
        assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Completed);
        let thread = client.thread(&thread).await;
        assert!(thread.open_turn.is_none());
        let roles: Vec<_> = thread.messages.iter().map(|message| message.kind.is_some()).collect();
        assert!(roles.len() >= 2 && roles.iter().all(|there| *there));
    }
}

#[tokio::test]
async fn invariant_3_a_kill_during_a_tool_call_leaves_one_effect() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let request = v1::ChatRequest { auto_approve: true, ..crate::client::ask(&document, "extract") };
    let stream = client.send(request).await.unwrap();
    let turn = stream.turn();
    sandbox.sim.wait_for_waiting_request().await;
    sandbox.kill();
    drop(stream);
    sandbox.sim.open_gate("g").await;

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
async fn a_signal_within_a_turn_refuses_waiting_chats_and_the_turn_resumes_after_the_restart() {
    let setup = Setup::new(SCRIPT).with("FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS", 1);
    let mut sandbox = setup.with("FOLIO_SERVER__HEALTH_LISTEN", "127.0.0.1:0").start().await;
    let (client, document) = sandbox.with_document().await;
    let running = client.chat(&document, "before").await;
    let (turn, thread) = (running.turn(), running.thread());
    sandbox.sim.wait_for_waiting_request().await;
    let queued = {
        let (client, if_busy) = (client.clone(), v1::IfBusy::Enqueue.into());
        let request = v1::ChatRequest { thread_id: thread, text: "hello".into(), if_busy, ..Default::default() };
        tokio::spawn(async move { client.send(request).await.map(drop) })
    };
    let health = format!("http://{}", sandbox.server().printed_after("health on ").expect("a health port"));
    let is_queued = async || {
        let page = reqwest::get(format!("{health}/metrics")).await.ok()?.text().await.ok()?;
        page.lines().any(|line| line == "folio_chats_queued 1").then_some(())
    };
    folio_testkit::wait_for("the chat in the queue", LIMIT, is_queued).await;
    sandbox.server().send_sigterm();
    let error = crate::client::refused(crate::within("the refusal", queued).await.unwrap());
    assert_eq!(error.code, folio_types::Code::Unavailable, "{error:?}");
    sandbox.wait_until_dead().await;
    drop(running);
    let client = sandbox.restart().await;
    assert!(client.until(&turn, v1::TurnStatus::Failed).await.retriable);
    sandbox.sim.open_gate("g").await;
    assert_eq!(client.resume(&turn).await.unwrap().completed().await.text, "Answered.");
}
