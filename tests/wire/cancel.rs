//! Cancelling a turn in each of its states.

use folio_proto::v1;
use llm_sim::Outcome;

use crate::client::{approved, decide, outline, refused};
use crate::sandbox::Sandbox;

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
        // Again, and then the thread goes on.
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
    assert!(["TURN_ENDED", "NOT_AWAITING_APPROVAL"].contains(&error.reason.as_str()), "{error:?}");
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
    assert_eq!(error.code, folio_types::Code::NotFound);
}
