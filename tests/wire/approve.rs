//! Decisions in parts with a kill between them.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::Code;

use crate::client::{approved, decide, on, refused, rejected};
use crate::sandbox::Sandbox;

const SCRIPT: &str = "
rules:
  - when: {user: two}
    rounds:
      - calls: [{name: create_tag, arguments: {name: a}}, {name: create_tag, arguments: {name: b}}, {name: list_tags}]
      - text: Both decided.
";

#[tokio::test]
async fn decisions_in_parts_survive_a_kill_between_them() {
    let mut sandbox = Sandbox::start(SCRIPT).await;
    let (client, document) = sandbox.with_document().await;
    let waiting = client.chat(&document, "two").await.pause().await;
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
    // A request that contradicts one recorded decision is refused as a whole.
    let whole = decide(&waiting, || rejected("no"));
    assert_eq!(refused(client.approve(whole).await).reason.as_str(), "DECISION_CONFLICT");
    assert!(client.tag_names().await.is_empty(), "invariant 2: nothing runs before the last");
    let last = client.approve(part(1, rejected("no"))).await.unwrap();
    assert!(matches!(last.outcome, Some(Outcome::Completed(_))), "{last:?}");
    assert_eq!(client.tag_names().await, ["a"]);
    assert_eq!(client.approve(part(0, approved())).await.unwrap(), last, "a repeated part gets the answer of the set");
}
