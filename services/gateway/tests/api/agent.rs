//! Runs of the extraction agent that are interrupted.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_history::job::NewJob;
use folio_testkit::wait_for;
use folio_tools::extraction::{AGENT_JOB_KIND, AgentRunInput};
use folio_types::{ExtractionId, JobId, Principal, PromptId, PromptRevId, Reason, Role, ThreadId, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Server};

const LIMIT: Duration = Duration::from_secs(30);

/// A run whose first model call stores a field.
struct InterruptedRun {
    job: String,
    extraction: String,
}

impl InterruptedRun {
    /// Starts a run whose second model call fails, so that its job attempts the run again. `method`: `RunExtraction`, or
    /// `RunExtractions` for an item of a batch.
    async fn start(server: &Server, client: &Client, method: &'static str) -> Self {
        let (job, document) = Self::request(server, client, method).await;
        // No further answer is scripted, so the second model call fails.
        wait_for("the failed model call", LIMIT, || async { (server.model.calls() >= 2).then_some(()) }).await;
        Self::of(client, job, &document).await
    }

    /// Requests a run. Returns its job and its document.
    async fn request(server: &Server, client: &Client, method: &'static str) -> (String, String) {
        let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
        let (prompt, _) = prompt.split_once('.').unwrap();
        client.call_ok("UpdatePrompt", json!({"prompt": {"prompt_id": prompt, "agent": true}})).await;
        let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
        let step = json!({"fields": {"total": 12.5}, "confidences": {"total": 1}});
        server.model.next(Answer::Calls(vec![("extract_fields", step)]));
        let mut request = json!({"prompt_revid": prompt});
        match method {
            "RunExtractions" => request["document_ids"] = json!([document]),
            _ => request["document_id"] = json!(document),
        }
        let job = client.call_ok(method, request).await["job"]["job_id"].as_str().unwrap().to_owned();
        (job, document)
    }

    /// Returns the run on a document, whose extraction exists.
    async fn of(client: &Client, job: String, document: &str) -> Self {
        let listed = client.call_ok("ListExtractions", json!({"document_id": document})).await;
        Self { job, extraction: listed["extractions"][0]["extraction_id"].as_str().unwrap().to_owned() }
    }

    async fn extraction(&self, client: &Client) -> Value {
        client.call_ok("GetExtraction", json!({"extraction_id": self.extraction})).await["extraction"].clone()
    }
}

/// Returns the state and the data in an export of the only extraction of an organization.
async fn exported(client: &Client) -> (Value, Value) {
    let chunks = client.stream("DownloadExtractions", json!({"format": "EXPORT_FORMAT_JSON_LINES"})).await;
    let line = STANDARD.decode(chunks[0]["chunk"].as_str().unwrap()).unwrap();
    let record: Value = serde_json::from_slice(&line).unwrap();
    (record["state"].clone(), record["data"].clone())
}

#[tokio::test]
async fn invariant_3_a_run_whose_turn_failed_continues_after_its_last_stored_step() {
    let server = Server::start().await;
    let client = server.member().await;
    let run = InterruptedRun::start(&server, &client, "RunExtraction").await;
    let partial = run.extraction(&client).await;
    assert_eq!(partial["state"], "EXTRACTION_STATE_IN_PROGRESS");
    assert_eq!(partial["original_json"], r#"{"total":12.5}"#);

    server.model.next(Answer::Calls(vec![("complete_extraction", json!({}))]));
    server.model.answer("Done.");
    let ended = wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": run.job})).await["job"].clone();
        (found["state"] == "JOB_STATE_COMPLETED").then_some(found)
    })
    .await;
    assert_eq!(ended["items"][0]["state"], "JOB_ITEM_STATE_DONE", "{ended}");
    assert!(ended["items"][0]["attempts"].as_u64().unwrap() >= 2, "{ended}");
    let stored = run.extraction(&client).await;
    assert_eq!(stored["state"], "EXTRACTION_STATE_COMPLETED");
    assert_eq!(stored["etag"], "v3", "each step is stored once: {stored}");
    server.stop().await;
}

#[tokio::test]
async fn a_run_whose_job_is_cancelled_leaves_a_failed_extraction_with_its_fields() {
    for method in ["RunExtraction", "RunExtractions"] {
        let server = Server::start().await;
        let client = server.member().await;
        let run = InterruptedRun::start(&server, &client, method).await;
        assert_eq!(run.extraction(&client).await["state"], "EXTRACTION_STATE_IN_PROGRESS", "{method}");
        assert_eq!(exported(&client).await, (json!("in_progress"), json!({"total": 12.5})));
        client.call_ok("CancelJob", json!({"job_id": run.job})).await;
        let failed = wait_for("the extraction fails", LIMIT, || async {
            let found = run.extraction(&client).await;
            (found["state"] == "EXTRACTION_STATE_FAILED").then_some(found)
        })
        .await;
        assert_eq!(failed["failure"], "the job of the run was cancelled", "{method}");
        assert_eq!(failed["original_json"], r#"{"total":12.5}"#);
        assert_eq!(exported(&client).await, (json!("failed"), json!({"total": 12.5})));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_run_stops_before_its_next_model_call_while_its_job_is_paused() {
    for method in ["RunExtraction", "RunExtractions"] {
        let server = Server::start().await;
        let client = server.member().await;
        // The model works until the job is paused.
        server.model.delay(LIMIT);
        let (job, document) = InterruptedRun::request(&server, &client, method).await;
        wait_for("the first model call", LIMIT, || async { (server.model.calls() == 1).then_some(()) }).await;
        client.call_ok("PauseJob", json!({"job_id": job})).await;
        server.model.delay(Duration::ZERO);
        wait_for("the end of the turn", LIMIT, || async {
            server.stores.open_turns.scan(None, 1).await.unwrap().is_empty().then_some(())
        })
        .await;
        let run = InterruptedRun::of(&client, job, &document).await;
        let partial = run.extraction(&client).await;
        assert_eq!(partial["state"], "EXTRACTION_STATE_IN_PROGRESS", "{method}");
        assert_eq!(partial["original_json"], r#"{"total":12.5}"#, "{method}: the step in progress is stored");
        assert_eq!(server.model.calls(), 1, "{method}");

        server.model.next(Answer::Calls(vec![("complete_extraction", json!({}))]));
        server.model.answer("Done.");
        client.call_ok("ResumeJob", json!({"job_id": run.job})).await;
        let ended = wait_for("the job ends", LIMIT, || async {
            let found = client.call_ok("GetJob", json!({"job_id": run.job})).await["job"].clone();
            (found["state"] == "JOB_STATE_COMPLETED").then_some(found)
        })
        .await;
        assert_eq!(ended["done_items"], 1, "{method}: {ended}");
        assert_eq!(run.extraction(&client).await["state"], "EXTRACTION_STATE_COMPLETED", "{method}");
        assert_eq!(server.model.calls(), 3, "{method}: no step is repeated");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_correction_whose_job_is_refused_leaves_the_extraction_unchanged() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    server.model.answer(r#"{"total": 12.5}"#);
    let made = client.call_ok("RunExtraction", json!({"document_id": document, "prompt_revid": prompt})).await;
    let extraction = made["extraction"]["extraction_id"].as_str().unwrap();
    // As JSON, the text exceeds the size of the input of a job.
    let correction = json!({"extraction_id": extraction, "text": "\"".repeat(16 * 1024)});
    assert_eq!(client.refusal("CorrectExtraction", correction).await.reason, Reason::TooLarge);
    let stored = client.call_ok("GetExtraction", json!({"extraction_id": extraction})).await["extraction"].clone();
    assert_eq!(stored["state"], "EXTRACTION_STATE_COMPLETED");
    assert_eq!(stored["etag"], made["extraction"]["etag"]);
    server.stop().await;
}

/// The process of the request died after it created the job.
#[tokio::test]
async fn a_job_whose_run_did_not_begin_makes_no_model_call() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = PromptRevId::new(PromptId::derive(&["prompt"]), 1);
    let input = AgentRunInput::new(ThreadId::derive(&["run"]), prompt, "test-model".to_owned());
    let new = NewJob {
        id: JobId::derive(&["run"]),
        principal: Principal::new(client.org.clone(), client.user.clone(), Role::Member),
        kind: AGENT_JOB_KIND.to_owned(),
        input: json!(input),
        items: vec![ExtractionId::derive(&["run"]).to_string()],
        running_max: LIMIT,
        at: Timestamp::now(),
    };
    let job = server.stores.jobs.create(new.header().unwrap()).await.unwrap().id.to_string();
    wait_for("a repeated attempt", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": job})).await["job"].clone();
        (found["items"][0]["attempts"].as_u64() >= Some(2)).then_some(())
    })
    .await;
    assert_eq!(server.model.calls(), 0);
    client.call_ok("CancelJob", json!({"job_id": job})).await;
    server.stop().await;
}
