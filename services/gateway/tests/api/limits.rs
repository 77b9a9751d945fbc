//! Quotas on the requests, turns and model calls of an organization.

use std::time::Duration;

use folio_proto::status;
use folio_proto::v1::{DocumentDescription, ListTagsRequest, UploadDocumentRequest, upload_document_request};
use folio_testkit::wait_for;
use folio_types::{Code, Error, OrgId, Reason, System};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Server};

const LIMIT: Duration = Duration::from_secs(20);

/// Starts a server; returns the platform's administrator and a member of another organization with these limits.
async fn limited(own: Value) -> (Server, Client, Client) {
    let server = Server::start().await;
    let (platform, them) = (server.platform_admin(&OrgId::generate(&System)).await, server.member().await);
    set(&platform, &them, own).await;
    (server, platform, them)
}

async fn set(platform: &Client, them: &Client, own: Value) {
    platform.call_ok("SetLimits", json!({"organization_id": them.org.to_string(), "own": own})).await;
}

async fn read(client: &Client) -> Result<Value, Error> {
    client.call("ListTags", json!({})).await
}

async fn document(client: &Client) -> String {
    client.ready_document("a.txt", "Total 12.50").await.document_id
}

/// Checks that a call exceeded a limit. Its name, its value and the retry delay are details for programs.
fn check(error: &Error, quota: &str) {
    assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::QuotaExceeded), "{error}");
    assert_eq!((error.details["quota"].as_str(), error.details["limit"].as_str()), (quota, "1"));
    assert!(error.retry_after.unwrap() <= Duration::from_secs(10));
}

#[tokio::test]
async fn the_request_rate_is_limited_per_organization() {
    let (server, platform, them) = limited(json!({"requests_per_second": 1})).await;
    let status =
        wait_for("the limit counts", LIMIT, || async { them.tags().list_tags(ListTagsRequest::default()).await.err() })
            .await;
    check(&status::to_error(&status), "requests_per_second");
    let details = tonic_types::StatusExt::get_error_details(&status);
    assert_eq!(details.error_info().unwrap().domain, status::DOMAIN);
    assert_eq!(details.quota_failure().unwrap().violations.len(), 1);
    for _ in 0..20 {
        read(&platform).await.unwrap();
    }
    set(&platform, &them, json!({})).await;
    wait_for("nothing is limited", LIMIT, || async {
        let answers = futures::future::join_all((0..20).map(|_| read(&them))).await;
        answers.into_iter().all(|answer| answer.is_ok()).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn concurrent_turns_are_bounded_and_accepted_turns_continue() {
    let (server, platform, them) = limited(json!({"concurrent_turns": 1})).await;
    let document = [document(&them).await, document(&platform).await];
    let chat = |text: &str| json!({"text": text, "document_ids": [document[0]]});
    server.model.next(Answer::Hang);
    let mut first = them.call_ok("Chat", chat("one")).await;
    check(&them.refusal("Chat", chat("two")).await, "concurrent_turns");
    // Another organization has its own limit.
    wait_for("the model call of the first turn", LIMIT, || async { (server.model.calls() == 1).then_some(()) }).await;
    server.model.answer("hello");
    let events = platform.stream("Chat", json!({"text": "one", "document_ids": [document[1]]})).await;
    assert!(events.last().unwrap()["event"]["completed"].is_object(), "{events:?}");

    them.call_ok("CancelTurn", json!({"turn_id": first["event"]["turn_id"].take()})).await;
    wait_for("the resumption below the limit", LIMIT, || async {
        server.model.answer("hello");
        them.call("Chat", chat("three")).await.ok()
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn resumed_turns_are_bounded_like_new_turns() {
    let (server, _, them) = limited(json!({"concurrent_turns": 1})).await;
    let document = document(&them).await;
    let chat = |id: &str| json!({"text": "do it", "document_ids": [document], "request_id": id});
    // The model has no scripted answer, so the turn fails retriably.
    let failed = json!({"turn_id": them.stream("Chat", chat("failed")).await[0]["event"]["turn_id"]});
    let before = them.call_ok("GetTurn", failed.clone()).await;
    assert_eq!(before["turn"]["status"], "TURN_STATUS_FAILED");
    let calls = server.model.calls();
    server.model.next(Answer::Hang);
    let running =
        wait_for("the failed turn no longer counts", LIMIT, || async { them.call("Chat", chat("running")).await.ok() })
            .await;
    let running = json!({"turn_id": running["event"]["turn_id"]});
    // Without this wait, another turn could receive the hanging answer.
    wait_for("the model call of the running turn", LIMIT, || async { (server.model.calls() > calls).then_some(()) })
        .await;

    check(&them.refusal("ResumeTurn", failed.clone()).await, "concurrent_turns");
    check(&them.refusal("Chat", chat("failed")).await, "concurrent_turns");
    assert_eq!(them.call_ok("GetTurn", failed.clone()).await, before, "nothing is changed");
    // Resuming a running turn joins it and starts no turn.
    them.call_ok("ResumeTurn", running.clone()).await;

    them.call_ok("CancelTurn", running).await;
    server.model.answer("hello");
    wait_for("the resumption below the limit", LIMIT, || async { them.call("ResumeTurn", failed.clone()).await.ok() })
        .await;
    wait_for("the end of the resumed turn", LIMIT, || async {
        let turn = them.call_ok("GetTurn", failed.clone()).await;
        (turn["turn"]["status"] == "TURN_STATUS_COMPLETED").then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn concurrent_model_calls_are_bounded() {
    let (server, _, them) = limited(json!({"concurrent_model_calls": 1})).await;
    let document = document(&them).await;
    let schema = them.schema("invoice", "total").await;
    let prompt = them.prompt("invoice", &schema).await;
    server.model.next(Answer::Hang);
    let started = them.call_ok("Chat", json!({"text": "x", "document_ids": [document]})).await;
    wait_for("the model call", LIMIT, || async { (server.model.calls() == 1).then_some(()) }).await;
    let run = json!({"document_id": document, "prompt_revid": prompt});
    check(&them.refusal("RunExtraction", run.clone()).await, "concurrent_model_calls");
    assert_eq!(server.model.calls(), 1, "the call was not made");
    them.call_ok("CancelTurn", json!({"turn_id": started["event"]["turn_id"]})).await;
    wait_for("a permit is free again", LIMIT, || async {
        server.model.answer(r#"{"total": 12.5}"#);
        them.call("RunExtraction", run.clone()).await.ok()
    })
    .await;
    server.stop().await;
}

/// Waits until an upload is refused because of the quota. The attempts are never stored: their content is shorter than
/// the announced size.
async fn wait_for_full_storage(client: &Client, size: u64) {
    wait_for("the quota of bytes", LIMIT, || async {
        let description = DocumentDescription { name: "b.txt".into(), size_bytes: size, ..Default::default() };
        let part = Some(upload_document_request::Part::Description(description));
        let parts = tokio_stream::iter([UploadDocumentRequest { part }]);
        let refused = status::to_error(&client.documents().upload_document(parts).await.unwrap_err());
        (refused.reason == Reason::QuotaExceeded).then_some(())
    })
    .await;
}

#[tokio::test]
async fn texts_and_journals_count_as_storage() {
    let (server, platform, them) = limited(json!({})).await;
    let text = "x".repeat(100);
    them.ready_document("a.txt", &text).await;
    // The file and its text together; the file alone would leave enough bytes.
    set(&platform, &them, json!({"storage_bytes": 350})).await;
    wait_for_full_storage(&them, 200).await;

    let others = server.member().await;
    let document = others.ready_document("a.txt", "x").await.document_id;
    others.call_ok("CreateThread", json!({"document_ids": [document]})).await;
    set(&platform, &others, json!({"storage_bytes": 10_000})).await;
    wait_for_full_storage(&others, 5_000).await;
    server.stop().await;
}
