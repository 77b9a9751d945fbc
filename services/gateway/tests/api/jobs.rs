//! Extractions of long documents, and jobs: of several documents, of a long document, and jobs whose owner is replaced.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_node::Node;
use folio_testkit::wait_for;
use folio_types::{Reason, Timestamp};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Server};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn invariant_5_another_node_continues_a_job_and_pays_no_answered_item_again() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let one = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let two = client.ready_document("b.txt", "Total 20").await.document_id;
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.next(Answer::Hang);
    let request = json!({"document_ids": [one, two], "prompt_revid": prompt});
    let created = client.call_ok("RunExtractions", request).await;
    let job = created["job"]["job_id"].as_str().unwrap();
    wait_for("the model call of the second item", LIMIT, || async { (server.model.calls() == 2).then_some(()) }).await;

    // In a single process, each other incarnation counts as dead.
    server.model.answer(r#"{"total": 20}"#);
    let next = Node::start(folio_node::Options::default(), server.node_parts.clone()).await.unwrap();
    let ended = wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": job})).await;
        (found["job"]["state"] == "JOB_STATE_COMPLETED").then_some(found)
    })
    .await;
    let items = ended["job"]["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["attempts"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(items.iter().all(|item| item["state"] == "JOB_ITEM_STATE_DONE"), "{ended}");
    assert_eq!(server.model.calls(), 3);
    assert_eq!(client.call_ok("ListExtractions", json!({})).await["total_size"], 2);

    // The records follow the settlements, which the job does not wait for.
    let records = wait_for("the records of both items", LIMIT, || async {
        let records = server.stores.usage.list(&client.org, Timestamp::UNIX_EPOCH, 100).await.unwrap();
        records.iter().any(|record| record.key.starts_with(&format!("{job}.2.2."))).then_some(records)
    })
    .await;
    let of_first_item = records.iter().filter(|record| record.key.starts_with(&format!("{job}.1."))).count();
    assert_eq!(of_first_item, 1, "{records:?}");
    drop(next);
    server.stop().await;
}

/// Returns the text of a document that needs more windows than a request may extract.
fn long_text() -> String {
    (0..8_000)
        .map(|line| format!("Line {line} of the annual report states nothing about any total amount.\n"))
        .collect()
}

#[tokio::test]
async fn invariant_5_a_long_document_becomes_a_job_that_another_node_continues_window_by_window() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let document = client.ready_document("report.txt", &long_text()).await.document_id;
    for _ in 0..2 {
        server.model.answer(r#"{"total": 12.5}"#);
    }
    server.model.next(Answer::Hang);
    let request = json!({"document_id": document, "prompt_revid": prompt, "request_id": "long"});
    let created = client.call_ok("RunExtraction", request.clone()).await;
    assert_eq!(created["extraction"], json!(null), "{created}");
    let job = created["job"]["job_id"].as_str().unwrap();
    let found = async || client.call_ok("GetJob", json!({"job_id": job})).await["job"].clone();
    let item = wait_for("the progress of the item", LIMIT, || async {
        let item = found().await["items"][0].clone();
        (item["done_steps"] == 2).then_some(item)
    })
    .await;
    let windows = item["steps"].as_u64().unwrap();
    assert!(windows > 8, "{windows}");
    let again = client.call_ok("RunExtraction", request.clone()).await;
    assert_eq!(again["job"]["job_id"], job);
    let other = json!({"document_id": document, "prompt_revid": prompt, "model": "prompts-only", "request_id": "long"});
    assert_eq!(client.refusal("RunExtraction", other).await.reason, Reason::RequestIdConflict);

    server.node.as_ref().unwrap().drain(Duration::ZERO).await;
    for _ in 0..windows {
        server.model.answer(r#"{"total": 12.5}"#);
    }
    let next = Node::start(folio_node::Options::default(), server.node_parts.clone()).await.unwrap();
    let ended = wait_for("the job ends", 3 * LIMIT, || async {
        let job = found().await;
        (job["state"] == "JOB_STATE_COMPLETED").then_some(job)
    })
    .await;
    let records = wait_for("the records of all windows", LIMIT, || async {
        let records = server.stores.usage.list(&client.org, Timestamp::UNIX_EPOCH, 100).await.unwrap();
        let keys: Vec<String> = records.into_iter().map(|record| record.key).collect();
        keys.iter().any(|key| key.ends_with(&format!(".{windows}.1"))).then_some(keys)
    })
    .await;
    for window in [1, 2] {
        let calls = records.iter().filter(|key| key.ends_with(&format!(".{window}.1"))).count();
        assert_eq!(calls, 1, "window {window} is paid once: {records:?}");
    }
    let result = ended["items"][0]["result_json"].as_str().unwrap_or_else(|| panic!("{ended}"));
    let result: Value = serde_json::from_str(result).unwrap();
    let stored = client.call_ok("GetExtraction", json!({"extraction_id": result["extraction_id"]})).await;
    assert_eq!(stored["extraction"]["coverage"]["windows"], windows);
    assert_eq!(client.call_ok("ListExtractions", json!({})).await["total_size"], 1);
    assert_eq!(client.call_ok("RunExtraction", request).await["job"]["state"], "JOB_STATE_COMPLETED");
    drop(next);
    server.stop().await;
}

#[tokio::test]
async fn values_of_windows_that_differ_are_conflicts_with_their_pages() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    // More than twice the context of the model, so that at least three windows are necessary.
    let filler = "word ".repeat(450);
    let mut pages = vec![filler.clone(); 120];
    pages[0] = format!("Total 12.50\n{filler}");
    pages[119] = format!("Total 20.50\n{filler}");
    let document = client.ready_document("report.txt", &pages.join("\u{c}")).await.document_id;
    server.model.answer(r#"{"total": 12.5}"#);
    for _ in 1..8 {
        server.model.answer(r#"{"total": 20.5}"#);
    }
    let request = json!({"document_id": document, "prompt_revid": prompt});
    let extraction = client.call_ok("RunExtraction", request).await["extraction"].clone();
    // The text contains both totals, and most windows state the second one.
    assert_eq!(extraction["original_json"], r#"{"total":20.5}"#, "{extraction}");
    assert_eq!(extraction["conflicts"], json!([{"path": "total", "value_json": "12.5", "page": 1}]));
    let coverage = &extraction["coverage"];
    let numbers = ["pages", "pages_read", "conflicts"].map(|name| coverage[name].as_u64());
    assert_eq!(numbers, [Some(120), Some(120), Some(1)], "{coverage}");
    assert!(coverage["windows"].as_u64() >= Some(3), "{coverage}");
    assert_eq!(coverage["model_calls"].as_u64(), u64::try_from(server.model.calls()).ok());
    server.stop().await;
}

#[tokio::test]
async fn a_document_with_too_many_pages_is_refused_with_their_number_before_a_model_call() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let text = ["Total 12.50"; 501].join("\u{c}");
    let document = client.ready_document("book.txt", &text).await.document_id;
    let refused = client.refusal("RunExtraction", json!({"document_id": document, "prompt_revid": prompt})).await;
    assert_eq!(refused.reason, Reason::TooLarge);
    assert!(refused.message.contains("has 501 pages; an extraction reads at most 500"), "{}", refused.message);
    assert_eq!(client.call_ok("ListJobs", json!({})).await["jobs"], json!(null));

    let request = json!({"document_ids": [document], "prompt_revid": prompt});
    let job = completed(&client, &client.call_ok("RunExtractions", request).await).await;
    let items = client.call_ok("ListJobItems", json!({"job_id": job})).await["items"].clone();
    assert_eq!((&items[0]["state"], &items[0]["attempts"]), (&json!("JOB_ITEM_STATE_FAILED"), &json!(1)), "{items}");
    assert_eq!(items[0]["error"]["reason"], "TOO_LARGE");
    assert_eq!(server.model.calls(), 0);
    server.stop().await;
}

/// Waits for the end of a job, and returns its id.
async fn completed(client: &Client, created: &Value) -> String {
    let job = created["job"]["job_id"].as_str().unwrap().to_owned();
    wait_for("the job ends", LIMIT, || async {
        let found = client.call_ok("GetJob", json!({"job_id": job})).await;
        (found["job"]["state"] == "JOB_STATE_COMPLETED").then_some(())
    })
    .await;
    job
}

/// Returns the names of the documents in an export, in its order.
async fn exported(client: &Client, jobs: &[&String]) -> Vec<String> {
    let chunks = client.stream("DownloadExtractions", json!({"job_ids": jobs})).await;
    let chunks = chunks.iter().map(|chunk| STANDARD.decode(chunk["chunk"].as_str().unwrap()).unwrap());
    let lines = String::from_utf8(chunks.flatten().collect()).unwrap();
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["document"].as_str().unwrap().to_owned();
    lines.lines().map(name).collect()
}

#[tokio::test]
async fn an_export_of_jobs_has_their_results_in_the_order_of_their_items() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let mut documents = Vec::new();
    for name in ["a.txt", "b.txt", "c.txt"] {
        documents.push(client.ready_document(name, "Total 12.50").await.document_id);
    }
    let [a, b, c] = documents.try_into().unwrap();
    let run = async |documents: &[&String]| {
        for _ in documents {
            server.model.answer(r#"{"total": 12.5}"#);
        }
        let request = json!({"document_ids": documents, "prompt_revid": prompt});
        completed(&client, &client.call_ok("RunExtractions", request).await).await
    };
    let (one, two) = (run(&[&b, &a]).await, run(&[&c, &a]).await);
    assert_eq!(exported(&client, &[&one]).await, ["b.txt", "a.txt"]);
    assert_eq!(exported(&client, &[&two, &one]).await, ["c.txt", "a.txt", "b.txt", "a.txt"]);

    let items = client.call_ok("ListJobItems", json!({"job_id": one})).await;
    let result: Value = serde_json::from_str(items["items"][0]["result_json"].as_str().unwrap()).unwrap();
    client.call_ok("DeleteExtraction", json!({"extraction_id": result["extraction_id"]})).await;
    assert_eq!(exported(&client, &[&one]).await, ["a.txt"]);

    let stranger = server.member().await;
    let refused = stranger.refusal("DownloadExtractions", json!({"job_ids": [one]})).await;
    assert_eq!(refused.reason, Reason::NotFound);
    server.stop().await;
}
