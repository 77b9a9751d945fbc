//! The routes of passages.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::Server;

const TEXT: &str = "Invoices of the supplier are payable within 30 days after their receipt.";

#[tokio::test]
async fn passages_are_searched_and_a_question_is_answered_once() {
    let server = Server::ingesting(Default::default(), Default::default()).await;
    let client = server.member().await;
    let document = client.ready_document("terms.txt", TEXT).await.document_id;
    let (http, routes) = (Http::new(&server, &client), format!("/v0/orgs/{}/retrieval", client.org));
    let (search, ask) = (format!("{routes}/search"), format!("{routes}/ask"));
    let found = wait_for("the document is indexed", Duration::from_secs(30), || async {
        let found = http.json(Method::POST, &search, &json!({ "query": "payable" })).await.json();
        found["passages"][0].is_object().then_some(found)
    })
    .await;
    let passage = &found["passages"][0];
    assert_eq!((&passage["document_id"], &passage["page"]), (&json!(document), &json!(1)), "{found}");
    assert_eq!((&passage["highlights"][0]["start"], &passage["relevance"]), (&json!(29), &Value::Null));
    let file_name = json!({ "key": "file_name", "value": "terms.txt" });
    assert!(passage["metadata_pairs"].as_array().unwrap().contains(&file_name), "{found}");
    assert_eq!((&found["lexical"]["used"], &found["rerank"]), (&json!(true), &Value::Null));
    let none = json!({ "query": "payable", "passage_filter": { "languages": ["ja"] }, "limit": 1, "rerank": true });
    let none = http.json(Method::POST, &search, &none).await.json();
    assert_eq!((&none["passages"], &none["rerank"]["used"]), (&json!([]), &json!(false)), "{none}");
    assert_eq!(none["rerank"]["gaps"][0]["reason"], json!("no_rerank_model"), "{none}");

    server
        .model
        .answer(r#"{"answer": "Within 30 days [1].", "citations": [{"passage": 1, "quote": "within 30 days"}]}"#);
    let question = json!({ "question": "When is the supplier payable?" });
    let send = async || {
        let request = http.request(Method::POST, &ask).header("idempotency-key", "q1");
        http.send(request.json(&question)).await.json()
    };
    let answer = send().await;
    assert_eq!((&answer["answer"], &answer["removed_citations"]), (&json!("Within 30 days [1]."), &json!(0)));
    assert_eq!((&answer["citations"][0]["document_id"], &answer["model"]), (&json!(document), &json!("test-model")));
    assert_eq!(send().await, answer, "a repetition calls no model");
    assert_eq!(server.model.calls(), 1);
    for (path, body, status) in [
        (&search, json!({ "query": " " }), 422),
        (&search, json!({}), 422),
        (&search, json!({ "query": "a", "limit": 51 }), 422),
        (&ask, json!({ "question": "a", "credit_budget": 0 }), 422),
    ] {
        assert_eq!(http.json(Method::POST, path, &body).await.status.as_u16(), status, "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_a_search_and_an_answer_find_nothing_of_another_organization() {
    let server = Server::ingesting(Default::default(), Default::default()).await;
    let us = server.user(&OrgId::generate(&System), Role::Admin).await;
    let them = server.user(&OrgId::generate(&System), Role::Admin).await;
    let foreign = them.ready_document("terms.txt", TEXT).await.document_id;
    let (ours, theirs) = (Http::new(&server, &us), Http::new(&server, &them));
    let path = |org: &OrgId, route: &str| format!("/v0/orgs/{org}/retrieval/{route}");
    wait_for("the document is indexed", Duration::from_secs(30), || async {
        let found = theirs.json(Method::POST, &path(&them.org, "search"), &json!({ "query": "payable" })).await.json();
        found["passages"][0].is_object().then_some(())
    })
    .await;
    for filter in [json!(null), json!({ "document_ids": [foreign] }), json!({ "metadata": {} })] {
        let search = json!({ "query": "payable", "passage_filter": filter });
        let found = ours.json(Method::POST, &path(&us.org, "search"), &search).await;
        assert_eq!(found.json()["passages"], json!([]), "{filter}");
        assert!(!found.text.contains(&foreign), "{filter}: {found:?}");
        let ask = json!({ "question": "When is the supplier payable?", "passage_filter": filter });
        let answer = ours.json(Method::POST, &path(&us.org, "ask"), &ask).await.json();
        assert_eq!((&answer["answer"], &answer["passages"]), (&Value::Null, &json!(0)), "{filter}");
        let refused = ours.json(Method::POST, &path(&them.org, "search"), &search).await;
        assert!(refused.status.is_client_error() && !refused.text.contains("payable"), "{refused:?}");
    }
    assert_eq!(server.model.calls(), 0);
    server.stop().await;
}
