//! The routes of collections and of ingestions.

use http::Method;
use serde_json::json;

use super::Http;
use crate::harness::Server;

#[tokio::test]
async fn a_collection_is_created_changed_listed_and_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, org) = (Http::new(&server, &client), format!("/v0/orgs/{}", client.org));
    let (tag, all) = (client.tag("contracts").await, format!("{org}/collections"));
    let document = client.ready_document("terms.txt", "Terms").await.document_id;
    client.ready_document("other.txt", "Other").await;
    let tagged = json!({"document": {"document_id": document, "tag_ids": [tag]}, "update_mask": "tagIds"});
    client.call_ok("UpdateDocument", tagged).await;

    let without_rule = http.json(Method::POST, &all, &json!({"name": "Contracts"})).await;
    assert_eq!(without_rule.status, 422, "{without_rule:?}");
    let created = http.json(Method::POST, &all, &json!({"name": "Contracts", "tag_ids": [tag]})).await;
    let (etag, made) = (created.headers["etag"].to_str().unwrap().to_owned(), created.json());
    assert_eq!((&made["tag_ids"], &made["metadata"], &made["description"]), (&json!([tag]), &json!({}), &json!(null)));
    let one = format!("{all}/{}", made["id"].as_str().unwrap());
    assert_eq!(http.get(&one).await.json(), made);
    let members = http.get(&format!("{one}/documents")).await.json();
    assert_eq!((&members["documents"][0]["id"], &members["total_count"]), (&json!(document), &json!(1)), "{members}");
    let none = http.get(&format!("{one}/documents?name=other")).await.json();
    assert_eq!((&none["documents"], &none["total_count"]), (&json!([]), &json!(0)));

    let change = json!({"name": "Contracts of 2026", "metadata": {"year": "2026"}});
    let changed = http.json(Method::PUT, &one, &change).await.json();
    assert_eq!((&changed["name"], &changed["tag_ids"]), (&json!("Contracts of 2026"), &json!([])));
    let request = http.request(Method::PUT, &one).header("if-match", etag).json(&change);
    assert_eq!(http.send(request).await.status, 412, "the collection was changed");
    assert_eq!(http.get(&format!("{one}/documents")).await.json()["total_count"], 0);
    assert_eq!(http.get(&format!("{all}?name=2026")).await.json()["collections"], json!([changed]));
    assert_eq!(http.json(Method::DELETE, &one, &json!(null)).await.status, 200);
    assert_eq!(http.get(&one).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn an_ingestion_is_started_and_its_state_is_returned() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, org) = (Http::new(&server, &client), format!("/v0/orgs/{}", client.org));
    let document = client.ready_document("terms.txt", "Terms of delivery.").await.document_id;
    let state = http.get(&format!("{org}/documents/{document}/ingestion")).await;
    assert_eq!((state.status.as_u16(), &state.json()["document_id"]), (200, &json!(document)), "{state:?}");
    assert_eq!(state.json()["summaries"], json!([]));
    let ingestions = format!("{org}/ingestions");
    for refused in [
        json!({}),
        json!({"document_ids": [document], "mode": "off"}),
        json!({"document_ids": [document], "mode": "other"}),
        json!({"document_ids": [document], "document_filter": "name:a"}),
        json!({"document_ids": [document], "credit_budget": 0}),
    ] {
        let answer = http.json(Method::POST, &ingestions, &refused).await;
        assert_eq!(answer.status, 422, "{refused}: {answer:?}");
    }
    let started = http.json(Method::POST, &ingestions, &json!({"document_ids": [document], "mode": "index"})).await;
    assert_eq!((started.status.as_u16(), &started.json()["documents"]), (200, &json!(1)), "{started:?}");
    let job = started.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(client.call_ok("GetJob", json!({"job_id": job})).await["job"]["kind"], "ingestion");
    server.stop().await;
}
