//! Jobs whose owner is replaced.

use std::time::Duration;

use folio_node::Node;
use folio_testkit::wait_for;
use folio_types::Timestamp;
use serde_json::json;

use crate::harness::{Answer, Server};

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
