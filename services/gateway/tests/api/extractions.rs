//! Tests of `ExtractionService`.

use serde_json::{Value, json};

use crate::harness::{Client, Server};

const TEXT: &str = "Invoice 17\nTotal 12.50";

/// Returns a request to run a new prompt with a schema on a new document.
async fn run(client: &Client) -> Value {
    let document = client.ready_document("a.txt", TEXT).await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Total", &schema).await;
    json!({"document_id": document.document_id, "prompt_revid": prompt, "request_id": "run"})
}

#[tokio::test]
async fn a_request_repeated_while_it_runs_calls_the_model_once() {
    let server = Server::start().await;
    let client = server.member().await;
    let request = run(&client).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let runs = (0..6).map(|_| client.call_ok("RunExtraction", request.clone()));
    let given = futures::future::join_all(runs).await;
    assert!(given.iter().all(|extraction| *extraction == given[0]), "{given:?}");
    assert_eq!(server.model.calls(), 1);
}
