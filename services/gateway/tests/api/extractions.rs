//! ExtractionService.

use folio_types::{Code, Reason};
use serde_json::{Value, json};

use crate::harness::{Client, MODEL, Server};

const TEXT: &str = "Invoice 17\nTotal 12.50";

/// Returns a request to run a new prompt with a schema on a new document.
async fn run(client: &Client) -> Value {
    let document = client.ready_document("a.txt", TEXT).await;
    let schema = client.schema("Invoice", "total").await;
    let prompt = client.prompt("Total", &schema.schema_id).await;
    json!({"document_id": document.document_id, "prompt_revid": prompt.prompt_id, "request_id": "run"})
}

/// Runs an extraction twice under one request id.
async fn extracted(server: &Server, client: &Client) -> Value {
    let request = run(client).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let mut first = client.done("RunExtraction", request.clone()).await;
    assert_eq!(client.done("RunExtraction", request).await, first);
    assert_eq!(server.model.calls(), 1, "the same request again costs no model call");
    first["extraction"].take()
}

#[tokio::test]
async fn a_request_repeated_while_it_runs_calls_the_model_once() {
    let server = Server::start().await;
    let client = server.member().await;
    let request = run(&client).await;
    server.model.answer(r#"{"total": 12.5}"#);
    let runs = (0..6).map(|_| client.done("RunExtraction", request.clone()));
    let given = futures::future::join_all(runs).await;
    assert!(given.iter().all(|extraction| *extraction == given[0]), "{given:?}");
    assert_eq!(server.model.calls(), 1);
}

#[tokio::test]
async fn the_original_the_edited_form_and_the_verified_flag_are_all_kept() {
    let server = Server::start().await;
    let client = server.member().await;
    let extraction = extracted(&server, &client).await;
    assert_eq!((&extraction["original_json"], &extraction["edited_json"]), (&json!(r#"{"total":12.5}"#), &Value::Null));
    assert_eq!(extraction["model"], MODEL);

    let id = &extraction["extraction_id"];
    let verify = json!({"extraction_id": id, "verified": true, "etag": extraction["etag"]});
    let verified = client.done("VerifyExtraction", verify.clone()).await["extraction"].take();
    assert_eq!((&verified["verified"], &verified["verified_by"]), (&json!(true), &json!(client.user.to_string())));
    assert_eq!(client.refusal("VerifyExtraction", verify).await.reason, Reason::VersionConflict);

    let edit = json!({"extraction_id": id, "path": "total", "value_json": "13", "request_id": "edit"});
    let edited = client.done("UpdateExtractionField", edit.clone()).await;
    let shown = &edited["extraction"];
    assert_eq!(shown["original_json"], r#"{"total":12.5}"#);
    assert_eq!((&shown["edited_json"], &shown["verified"]), (&json!(r#"{"total":13}"#), &Value::Null));
    assert_eq!(client.done("UpdateExtractionField", edit).await, edited);

    let replace = json!({"extraction_id": id, "data_json": r#"{"total": 14}"#});
    let replaced = client.done("ReplaceExtraction", replace).await["extraction"].take();
    assert_eq!(replaced["edited_json"], r#"{"total":14}"#);

    let list = client.done("ListExtractions", json!({"document_id": extraction["document_id"]})).await;
    assert_eq!((&list["extractions"], &list["total_size"]), (&json!([replaced]), &json!(1)));

    client.done("DeleteExtraction", json!({"extraction_id": id})).await;
    assert_eq!(client.refusal("GetExtraction", json!({"extraction_id": id})).await.code, Code::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn an_edit_must_match_the_schema() {
    let server = Server::start().await;
    let client = server.member().await;
    let id = extracted(&server, &client).await["extraction_id"].take();
    for (path, value, reason) in [
        ("total", "\"much\"", Reason::SchemaMismatch),
        ("total..x", "1", Reason::InvalidPath),
        ("other", "1", Reason::InvalidPath),
        ("total", "{", Reason::InvalidField),
        ("", "1", Reason::InvalidField),
    ] {
        let edit = json!({"extraction_id": id, "path": path, "value_json": value});
        let error = client.refusal("UpdateExtractionField", edit).await;
        assert_eq!(error.reason, reason, "{path} = {value}: {error}");
    }
    let replace = json!({"extraction_id": id, "data_json": r#"{"total": 1, "more": 2}"#});
    assert_eq!(client.refusal("ReplaceExtraction", replace).await.reason, Reason::SchemaMismatch);
    server.stop().await;
}

#[tokio::test]
async fn an_impossible_run_is_refused_with_its_reason() {
    let server = Server::start().await;
    let client = server.member().await;
    let request = run(&client).await;
    let error = client.refusal("RunExtraction", request.clone()).await;
    assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::ModelFailed));
    server.model.answer("no JSON");
    server.model.answer(r#"{"total": "twelve"}"#);
    let error = client.refusal("RunExtraction", request.clone()).await;
    assert_eq!(error.reason, Reason::SchemaMismatch, "a mismatch twice");
    server.model.answer(r#"{"total": 1}"#);
    client.done("RunExtraction", request.clone()).await;

    let with = |field: &str, value: &str| {
        let mut request = request.clone();
        (request["request_id"], request[field]) = (json!(""), json!(value));
        client.refusal("RunExtraction", request)
    };
    assert_eq!(with("model", "unknown").await.reason, Reason::ModelNotAvailable);
    let missing = folio_types::PromptId::derive(&["x"]).to_string();
    assert_eq!(with("prompt_revid", &missing).await.code, Code::NotFound);
    server.stop().await;
}
