//! Invariant 9: the deadline of a call or stream never stops a turn.

use std::time::Duration;

use folio_proto::v1;

use crate::client::{approved, ask, decide};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: slow}
    fault: {hold: {gate: g, after_chunks: 3}}
    answer: {text: 'one two three four five six seven eight nine ten'}
  - when: {user: write, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: Made.}
  - when: {user: write}
    answer: {calls: [{name: create_tag, arguments: {name: made}}]}
";

/// Deadline of a call. A busy machine accepts the call and starts its turn before the deadline.
const DEADLINE: Duration = Duration::from_secs(8);

#[tokio::test]
async fn a_callers_deadline_ends_its_call_and_not_the_turn() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let stream = client.chat(&document, "write").await;
    let waiting = stream.pause().await;
    let mut request = tonic::Request::new(decide(&waiting, approved));
    request.set_timeout(DEADLINE);
    let mut conversations = client.conversations.clone();
    let (late, ()) = tokio::join!(conversations.approve(request), sandbox.sim.wait_for_waiting_request());
    let status = late.unwrap_err();
    assert!(matches!(status.code(), tonic::Code::DeadlineExceeded | tonic::Code::Cancelled), "{status:?}");
    assert_eq!(client.turn(&waiting.turn_id).await.status(), v1::TurnStatus::Running);
    sandbox.sim.open_gate("g").await;
    client.until(&waiting.turn_id, v1::TurnStatus::Completed).await;
    let answer = client.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(v1::approve_response::Outcome::Completed(_))), "{answer:?}");
    assert_eq!(client.tag_names().await, ["made"]);
}

#[tokio::test]
async fn a_callers_deadline_ends_its_stream_and_not_the_turn() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let mut request = tonic::Request::new(ask(&document, "slow"));
    request.set_timeout(DEADLINE);
    let mut stream = client.conversations.clone().chat(request).await.unwrap().into_inner();
    let turn = stream.message().await.unwrap().unwrap().event.unwrap().turn_id;
    let status = loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended in order"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status:?}");
    assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Running);
    sandbox.sim.open_gate("g").await;
    client.until(&turn, v1::TurnStatus::Completed).await;
}
