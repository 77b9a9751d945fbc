//! Runs of the extraction agent whose turn fails.

use std::time::Duration;

use folio_testkit::wait_for;
use serde_json::json;

use crate::harness::{Answer, Server};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn invariant_3_a_run_whose_turn_failed_continues_after_its_last_stored_step() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let (prompt, _) = prompt.split_once('.').unwrap();
    client.call_ok("UpdatePrompt", json!({"prompt": {"prompt_id": prompt, "agent": true}})).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let step = json!({"fields": {"total": 12.5}, "confidences": {"total": 1}});
    server.model.next(Answer::Calls(vec![("extract_fields", step)]));
    let created = client.call_ok("RunExtraction", json!({"document_id": document, "prompt_revid": prompt})).await;
    let job = created["job"]["job_id"].as_str().unwrap();
    let extraction = created["job"]["items"][0]["subject"].as_str().unwrap();

    // No further answer is scripted, so the second model call fails.
    wait_for("the failed model call", LIMIT, || async { (server.model.calls() >= 2).then_some(()) }).await;
    let partial = client.call_ok("GetExtraction", json!({"extraction_id": extraction})).await["extraction"].clone();
    assert_eq!(partial["state"], "EXTRACTION_STATE_IN_PROGRESS");
    assert_eq!(partial["original_json"], r#"{"total":12.5}"#);

    server.model.next(Answer::Calls(vec![("complete_extraction", json!({}))]));
    server.model.answer("Done.");
    let ended = wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": job})).await["job"].clone();
        (found["state"] == "JOB_STATE_COMPLETED").then_some(found)
    })
    .await;
    assert_eq!(ended["items"][0]["state"], "JOB_ITEM_STATE_DONE", "{ended}");
    assert!(ended["items"][0]["attempts"].as_u64().unwrap() >= 2, "{ended}");
    let stored = client.call_ok("GetExtraction", json!({"extraction_id": extraction})).await["extraction"].clone();
    assert_eq!(stored["state"], "EXTRACTION_STATE_COMPLETED");
    assert_eq!(stored["etag"], "v3", "each step is stored once: {stored}");
    server.stop().await;
}
