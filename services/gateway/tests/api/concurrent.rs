//! Concurrent calls of one client.

use folio_types::Etag;
use serde_json::json;

use crate::harness::Server;

#[tokio::test]
async fn concurrent_changes_are_all_applied() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = client.tag("shared").await;
    let version = async || {
        let found = client.call_ok("GetTag", json!({"tag_id": id})).await;
        found["tag"]["etag"].as_str().unwrap().parse::<Etag>().unwrap().version()
    };
    let before = version().await;
    let change = |n: u32| client.call_ok("UpdateTag", json!({"tag": {"tag_id": id, "description": format!("by {n}")}}));
    futures::future::join_all((0..4).map(change)).await;
    assert_eq!(version().await, before + 4);
    server.stop().await;
}

#[tokio::test]
async fn an_extraction_requested_again_while_it_runs_calls_the_model_once() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", "Invoice 17\nTotal 12.50").await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let request = json!({"document_id": document.document_id, "prompt_revid": prompt, "request_id": "run"});
    server.model.answer(r#"{"total": 12.5}"#);
    let runs = (0..6).map(|_| client.call_ok("RunExtraction", request.clone()));
    let given = futures::future::join_all(runs).await;
    assert!(given.iter().all(|extraction| *extraction == given[0]), "{given:?}");
    assert_eq!(server.model.calls(), 1);
}
