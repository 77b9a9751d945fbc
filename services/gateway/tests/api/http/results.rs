//! The routes of the results of prompts.

use folio_types::access::Scope;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{Client, Server};

/// Runs a prompt whose answer is a total.
async fn extract(server: &Server, client: &Client, document: &str, prompt: &str, total: f64) {
    server.model.answer(&json!({ "total": total }).to_string());
    client.call_ok("RunExtraction", json!({"document_id": document, "prompt_revid": prompt})).await;
}

#[tokio::test]
async fn a_result_is_read_changed_and_deleted() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let schema = client.schema("invoice", "total").await;
    let prompt = client.prompt("Totals", &schema).await;
    let prompt_id = prompt.split('.').next().unwrap();
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let result = format!("/v0/orgs/{}/llm/result/{document}", client.org);
    let of_revision = format!("{result}?prompt_revid={prompt}");
    for query in [format!("?prompt_revid={prompt}"), "?prompt_id=x".to_owned(), "?prompt_revid=default".to_owned()] {
        let missing = http.get(&format!("{result}{query}")).await;
        let detail = json!(format!("LLM result not found for document_id: {document}"));
        assert_eq!((missing.status.as_u16(), missing.detail()), (404, detail), "{query}");
    }
    let update = json!({ "updated_llm_result": { "total": 13.5 }, "is_verified": true });
    let missing = http.json(Method::PUT, &of_revision, &update).await;
    assert!(missing.detail().as_str().unwrap().starts_with("No existing LLM result found for "), "{missing:?}");
    assert_eq!(missing.status, 400);
    extract(&server, &client, &document, &prompt, 1.0).await;
    extract(&server, &client, &document, &prompt, 12.5).await;

    let found = http.get(&of_revision).await.json();
    assert_eq!(
        (&found["llm_result"], &found["updated_llm_result"]),
        (&json!({"total": 12.5}), &json!({"total": 12.5}))
    );
    assert_eq!((&found["prompt_revid"], &found["prompt_id"]), (&json!(prompt), &json!(prompt_id)));
    assert_eq!((&found["prompt_version"], &found["document_id"]), (&json!(1), &json!(document)));
    assert_eq!((&found["is_edited"], &found["is_verified"]), (&json!(false), &json!(false)));
    assert_eq!((&found["prompt_display_name"], &found["run"]), (&json!("Totals"), &Value::Null));
    assert_eq!(http.get(&format!("{result}?prompt_id={prompt_id}")).await.json(), found);
    let newer = format!("{prompt_id}.2");
    assert_eq!(http.get(&format!("{result}?prompt_revid={newer}")).await.status, 404);
    for fallback in ["prompt_revid_fallback=True", "fallback=true"] {
        assert_eq!(http.get(&format!("{result}?prompt_revid={newer}&{fallback}")).await.json(), found, "{fallback}");
    }
    let neither = http.get(&result).await;
    let detail = json!("Either prompt_id or prompt_revid is required");
    assert_eq!((neither.status.as_u16(), neither.detail()), (422, detail));
    let state = http.get(&format!("/v0/orgs/{}/documents/{document}", client.org)).await.json()["state"].clone();
    assert_eq!(state, "llm_completed");

    let other = json!({ "updated_llm_result": { "sum": 1 } });
    let refused = http.json(Method::PUT, &of_revision, &other).await;
    assert!(refused.detail().as_str().unwrap().starts_with("Updated result signature does not match original."));
    assert_eq!(refused.status, 400);
    let wrong = http.json(Method::PUT, &of_revision, &json!({ "updated_llm_result": { "total": "x" } })).await;
    let location = json!(["body", "updated_llm_result", "total"]);
    assert_eq!((wrong.status.as_u16(), &wrong.detail()[0]["loc"]), (422, &location), "{wrong:?}");
    let array = http.json(Method::PUT, &of_revision, &json!({ "updated_llm_result": [] })).await;
    assert_eq!(array.status, 422);
    let put = async || {
        let request = http.request(Method::PUT, &of_revision).header("idempotency-key", "k").json(&update);
        http.send(request).await
    };
    let (first, again) = (put().await.json(), put().await.json());
    assert_eq!(first, again);
    assert_eq!(
        (&first["llm_result"], &first["updated_llm_result"]),
        (&json!({"total": 12.5}), &json!({"total": 13.5}))
    );
    assert_eq!((&first["is_edited"], &first["is_verified"]), (&json!(true), &json!(true)));

    let etag = http.get(&of_revision).await.header("etag").to_owned();
    let known = async || {
        http.send(http.request(Method::GET, &of_revision).header("if-none-match", &etag)).await.status.as_u16()
    };
    assert_eq!(known().await, 304);
    extract(&server, &client, &document, &prompt, 2.0).await;
    assert_eq!(known().await, 200, "the result is another extraction");
    for method in [Method::PUT, Method::DELETE] {
        let stale = http.request(method, &of_revision).header("if-match", &etag).json(&update);
        assert_eq!(http.send(stale).await.status, 412);
    }
    let deleted = http.json(Method::DELETE, &of_revision, &Value::Null).await;
    assert_eq!(deleted.json(), json!({ "status": "success", "message": "LLM result deleted" }));
    for method in [Method::GET, Method::DELETE] {
        let missing = http.json(method, &of_revision, &Value::Null).await;
        assert_eq!(missing.status, 404);
        assert!(missing.detail().as_str().unwrap().starts_with("LLM result not found for "));
    }
    server.stop().await;
}

#[tokio::test]
async fn the_newest_results_of_a_document_are_a_file() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let schema = client.schema("invoice", "total").await;
    let prompt = client.prompt("Totals", &schema).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let file = format!("/v0/orgs/{}/llm/results/{document}/download", client.org);
    let empty = http.get(&file).await;
    assert_eq!((empty.status.as_u16(), empty.detail()), (404, json!("No LLM results found for this document")));
    extract(&server, &client, &document, &prompt, 1.0).await;
    extract(&server, &client, &document, &prompt, 12.5).await;
    server.model.answer(r#"{"document_type": "invoice", "document_date": null, "summary": "An invoice."}"#);
    client.call_ok("RunExtraction", json!({"document_id": document, "prompt_revid": "default"})).await;
    let found = http.get(&file).await;
    let disposition = found.header("content-disposition");
    assert!(disposition.starts_with("attachment; ") && disposition.contains(&document), "{disposition}");
    let found = found.json();
    assert_eq!((&found["document_name"], &found["organization_id"]), (&json!("a.txt"), &json!(client.org.to_string())));
    let results = found["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| (&result["prompt_name"], &result["prompt_revid"])).collect();
    let (built_in, default, totals, revision) =
        (json!("Document Summary"), json!("default"), json!("Totals"), json!(prompt));
    assert_eq!(names, [(&built_in, &default), (&totals, &revision)]);
    assert_eq!((&results[1]["extraction_result"], &results[1]["prompt_version"]), (&json!({"total": 12.5}), &json!(1)));
    assert_eq!(results[1]["metadata"]["is_verified"], false);
    server.stop().await;
}

#[tokio::test]
async fn a_token_for_extractions_reads_no_names_of_prompts_and_documents() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let client = server.user(&org, Role::Member).await;
    let prompt = client.prompt("Totals", &client.schema("invoice", "total").await).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    extract(&server, &client, &document, &prompt, 12.5).await;
    let http = Http::new(&server, &server.restricted_user(&org, Role::Viewer, &[Scope::Extractions], false).await);
    let found = http.get(&format!("/v0/orgs/{org}/llm/result/{document}?prompt_revid={prompt}")).await.json();
    assert_eq!((&found["prompt_display_name"], &found["llm_result"]), (&Value::Null, &json!({"total": 12.5})));
    let file = http.get(&format!("/v0/orgs/{org}/llm/results/{document}/download")).await.json();
    assert_eq!((&file["document_name"], &file["results"][0]["prompt_name"]), (&Value::Null, &Value::Null));
    server.stop().await;
}
