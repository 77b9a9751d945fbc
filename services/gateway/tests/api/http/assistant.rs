//! The route of the assistant.

use folio_resources::CollectionId;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Answer, Server};

/// Scripts the answers of a turn that computes a sum.
pub(super) fn script_sum(server: &Server) {
    server.model.answer(r#"{"intent_type": "calculation", "confidence": 1, "reasoning": "A sum."}"#);
    server.model.next(Answer::Calls(vec![("calculator", json!({ "expression": "1 + 1" }))]));
    server.model.answer(r#"{"formula": "sum", "expression": "1 + 1", "result": 2, "sources": [], "confidence": 1}"#);
    server.model.answer(r#"{"summary": "The sum is 2."}"#);
}

#[tokio::test]
async fn a_question_is_answered_once_and_its_conversation_continues() {
    let server = Server::start().await;
    let client = server.member().await;
    let (http, ask) = (Http::new(&server, &client), format!("/v0/orgs/{}/assistant/ask", client.org));
    script_sum(&server);
    let send = async || {
        let request = http.request(Method::POST, &ask).header("idempotency-key", "q1");
        http.send(request.json(&json!({ "question": "What is 1 + 1?" }))).await.json()
    };
    let answer = send().await;
    assert_eq!((&answer["type"], &answer["answer"]["result"]), (&json!("CalculationResponse"), &json!(2)), "{answer}");
    assert_eq!((&answer["text"], &answer["answer"]["passages"]), (&json!("1 + 1 = 2"), &json!([])));
    assert_eq!(send().await, answer, "a repetition calls no model");
    assert_eq!(server.model.calls(), 4);

    script_sum(&server);
    let next = json!({ "question": "And again?", "thread_id": answer["thread_id"] });
    let next = http.json(Method::POST, &ask, &next).await.json();
    assert_eq!(next["thread_id"], answer["thread_id"]);
    assert_ne!(next["turn_id"], answer["turn_id"]);

    let log = format!("/v0/orgs/{}/threads/{}/tool_uses", client.org, answer["thread_id"].as_str().unwrap());
    let uses = http.get(&log).await.json();
    assert_eq!((&uses["total_count"], &uses["skip"]), (&json!(2), &json!(0)), "{uses}");
    let first = &uses["tool_uses"][0];
    assert_eq!((&first["tool"], &first["node"]), (&json!("calculator"), &json!("calculation_agent")), "{uses}");
    assert_eq!((&first["input"], &first["output"]), (&json!({ "expression": "1 + 1" }), &json!("\"Result: 2\"")));
    assert_eq!((&first["status"], &first["turn_id"]), (&json!("ok"), &answer["turn_id"]));
    assert!(first["time"].as_str().unwrap().ends_with('Z'), "{first}");
    for (query, count) in [
        ("tool=calculator", 2),
        ("tool=retrieve_documents", 0),
        (&*format!("turn_id={}", next["turn_id"].as_str().unwrap()), 1),
        ("skip=1", 1),
        ("limit=1", 1),
    ] {
        let page = http.get(&format!("{log}?{query}")).await.json();
        assert_eq!(page["tool_uses"].as_array().unwrap().len(), count, "{query}: {page}");
    }
    assert_eq!(http.get(&format!("{log}?turn_id=1")).await.status.as_u16(), 422);

    server.model.answer(r#"{"intent_type": "qa", "confidence": 1, "reasoning": "A question."}"#);
    server.model.answer("I cannot say.");
    server.model.answer("I cannot say.");
    let failed = http.json(Method::POST, &ask, &json!({ "question": "Who signed?" })).await;
    assert!(!failed.status.is_success(), "{failed:?}");
    let detail = failed.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("AnswerResponse. The model wrote: I cannot say."), "{detail}");

    for body in [
        json!({ "question": " " }),
        json!({ "question": "a", "tag_ids": ["../../etc/passwd"] }),
        json!({ "question": "a", "collection_ids": ["../../etc/passwd"] }),
        json!({ "question": "a", "collection_ids": vec![CollectionId::derive(&["a"]).to_string(); 21] }),
        json!({}),
        json!({ "question": "a", "credit_budget": 0 }),
        json!({ "question": "a", "document_ids": ["../../etc/passwd"] }),
        json!({ "question": "a", "thread_id": "../../etc/passwd" }),
    ] {
        assert_eq!(http.json(Method::POST, &ask, &body).await.status.as_u16(), 422, "{body}");
    }
    server.stop().await;
}

#[tokio::test]
async fn invariant_6_threads_and_documents_of_another_organization_are_like_missing_ones() {
    let server = Server::start().await;
    let us = server.user(&OrgId::generate(&System), Role::Member).await;
    let them = server.user(&OrgId::generate(&System), Role::Member).await;
    let foreign = them.ready_document("terms.txt", "Payable within 30 days.").await.document_id;
    let (ours, theirs) = (Http::new(&server, &us), Http::new(&server, &them));
    let path = |org: &OrgId| format!("/v0/orgs/{org}/assistant/ask");
    script_sum(&server);
    let answer = theirs.json(Method::POST, &path(&them.org), &json!({ "question": "What is 1 + 1?" })).await.json();
    let calls = server.model.calls();
    let tag = them.tag("theirs").await;
    let collection = json!({ "collection": { "name": "theirs", "tag_ids": [tag] } });
    let collection = them.call_ok("CreateCollection", collection).await["collection"]["collection_id"].clone();
    for body in [
        json!({ "question": "a", "document_ids": [foreign] }),
        json!({ "question": "a", "tag_ids": [tag] }),
        json!({ "question": "a", "collection_ids": [collection] }),
        json!({ "question": "a", "thread_id": answer["thread_id"] }),
    ] {
        let refused = ours.json(Method::POST, &path(&us.org), &body).await;
        assert_eq!(refused.status.as_u16(), 404, "{body}: {refused:?}");
        let text = refused.json().to_string();
        assert!(!text.contains("30 days"), "{text}");
    }
    assert_eq!(server.model.calls(), calls, "no model was called");
    // The tool log of another organization, and of another user of the organization.
    let thread = answer["thread_id"].as_str().unwrap();
    let log = |org: &OrgId| format!("/v0/orgs/{org}/threads/{thread}/tool_uses");
    assert_eq!(ours.get(&log(&us.org)).await.status.as_u16(), 404);
    let colleague = Http::new(&server, &server.user(&them.org, Role::Member).await);
    assert_eq!(colleague.get(&log(&them.org)).await.status.as_u16(), 404);
    assert_eq!(theirs.get(&log(&them.org)).await.json()["total_count"], json!(1));
    assert_ne!(answer["thread_id"], Value::Null);
    server.stop().await;
}
