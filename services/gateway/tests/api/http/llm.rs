//! The routes of models, runs of prompts, and plain completions.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::{OrgId, Role, System};
use http::Method;
use serde_json::{Value, json};

use super::Http;
use crate::harness::{MODEL, Server};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn models_are_listed_for_each_version_of_the_clients() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let names = http.get(&format!("/v0/orgs/{}/llm/models", client.org)).await.json();
    let names: Vec<&str> = names["models"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(names.contains(&MODEL) && names.contains(&"prompts-only"), "{names:?}");
    assert!(names.contains(&"test-vectors") && !names.contains(&"test-rates"), "{names:?}");
    let path = format!("/v0/orgs/{}/llm/models?exclude_embeddings=true", client.org);
    let without = http.get(&path).await.json();
    assert_eq!(without["models"].as_array().unwrap().len(), names.len() - 1, "{without}");
    let chat = http.get(&format!("/v0/orgs/{}/llm/models?chat_only=True", client.org)).await.json();
    assert!(!chat["models"].as_array().unwrap().contains(&json!("prompts-only")), "{chat}");

    let described = http.get("/v0/account/llm/models?provider_name=test").await.json();
    assert_eq!(described["models"], described["chat_models"]);
    let vectors = &described["embedding_models"][0];
    assert_eq!((&vectors["litellm_model"], &vectors["max_input_tokens"]), (&json!("test-vectors"), &json!(32_000)));
    let model = described["models"].as_array().unwrap().iter().find(|model| model["id"] == MODEL).unwrap();
    assert_eq!((&model["litellm_model"], &model["max_input_tokens"]), (&json!(MODEL), &json!(32_000)));
    assert_eq!((&model["litellm_provider"], &model["cost_per_1m_input_tokens"]), (&json!("test"), &json!(0.15)));
    let both = http.get("/v0/account/llm/models?ocr_only=true&chat_agent_only=true").await;
    assert_eq!((both.status.as_u16(), both.detail()), (422, json!("Use only one of ocr_only or chat_agent_only")));
    server.stop().await;
}

#[tokio::test]
async fn a_run_without_force_returns_the_stored_result() {
    let server = Server::start().await;
    let client = server.member().await;
    let http = Http::new(&server, &client);
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let run = async |query: &str| {
        let path = format!("/v0/orgs/{}/llm/run/{document}?prompt_revid={prompt}{query}", client.org);
        http.json(Method::POST, &path, &json!({})).await
    };
    server.model.answer(r#"{"total": 12.5}"#);
    let first = run("").await;
    assert_eq!((first.status.as_u16(), &first.json()["result"]), (200, &json!({ "total": 12.5 })), "{first:?}");
    assert_eq!((run("").await.json(), server.model.calls()), (first.json(), 1));
    server.model.answer(r#"{"total": 13}"#);
    let forced = run("&force=True").await.json();
    assert_eq!((&forced["status"], &forced["result"]), (&json!("success"), &json!({ "total": 13 })));
    assert_ne!(forced["result_id"], first.json()["result_id"]);
    assert_eq!((run("").await.json(), server.model.calls()), (forced, 2));

    for (path, text) in [
        (format!("{document}?prompt_revid=x"), "Prompt not found"),
        (format!("{document}?prompt_revid={}.9", prompt.split('.').next().unwrap()), "Prompt not found"),
        ("x".to_owned(), "Document not found"),
    ] {
        let missing = http.json(Method::POST, &format!("/v0/orgs/{}/llm/run/{path}", client.org), &Value::Null).await;
        assert_eq!((missing.status.as_u16(), missing.detail()), (404, json!(text)), "{path}");
    }
    // No answer is scripted.
    let failed = run("&force=true").await;
    assert_eq!(failed.status, 500, "{failed:?}");
    assert!(failed.detail().as_str().unwrap().starts_with("Error processing document: "), "{failed:?}");
    server.stop().await;
}

#[tokio::test]
async fn runs_at_the_same_time_are_one_run_and_go_on_without_their_client() {
    let server = Server::start().await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let path = format!("/v0/orgs/{}/llm/run/{document}?prompt_revid={prompt}", client.org);
    server.model.answer(r#"{"total": 12.5}"#);
    server.model.delay(Duration::from_millis(300));
    let http = Http::new(&server, &client);
    let runs = futures::future::join_all((0..4).map(|_| http.json(Method::POST, &path, &Value::Null))).await;
    let first = runs[0].json();
    assert!(runs.iter().all(|run| run.status == 200 && run.json() == first), "{runs:?}");
    assert_eq!(server.model.calls(), 1);

    let other = client.ready_document("b.txt", "Total 1").await.document_id;
    let path = format!("/v0/orgs/{}/llm/run/{other}?prompt_revid={prompt}", client.org);
    server.model.answer(r#"{"total": 1}"#);
    // The model works until the client has abandoned its request.
    server.model.delay(SOON);
    let (http, sent) = (http.clone(), path.clone());
    let run = tokio::spawn(async move { http.json(Method::POST, &sent, &Value::Null).await });
    wait_for("the model call", SOON, async || (server.model.calls() == 2).then_some(())).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    server.model.delay(Duration::ZERO);
    wait_for("the stored result", SOON, async || {
        let listed = client.call_ok("ListExtractions", json!({"document_id": other})).await;
        (listed["total_size"] == 1).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn the_built_in_prompt_runs_without_a_prompt() {
    let server = Server::start().await;
    let client = server.member().await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let summary = json!({ "document_type": "invoice", "document_date": null, "summary": "A total." });
    server.model.answer(&summary.to_string());
    let path = format!("/v0/orgs/{}/llm/run/{document}", client.org);
    let run = Http::new(&server, &client).json(Method::POST, &path, &Value::Null).await;
    assert_eq!((run.status.as_u16(), &run.json()["result"]), (200, &summary), "{run:?}");
    server.stop().await;
}

#[tokio::test]
async fn an_administrator_makes_plain_completions() {
    let server = Server::start().await;
    let org = OrgId::generate(&System);
    let admin = server.user(&org, Role::Admin).await;
    let http = Http::new(&server, &admin);
    let messages = json!([{ "role": "system", "content": "be short" }, { "role": "user", "content": "hello" }]);
    for path in [format!("/v0/orgs/{org}/llm/run"), "/v0/account/llm/run".to_owned()] {
        server.model.answer("Good day");
        let whole = http.json(Method::POST, &path, &json!({ "model": MODEL, "messages": messages })).await.json();
        assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!(MODEL)));
        let choice = json!({
            "index": 0, "message": { "role": "assistant", "content": "Good day" }, "finish_reason": "stop",
        });
        assert_eq!((&whole["choices"], &whole["usage"]["total_tokens"]), (&json!([choice]), &json!(15)));
        server.model.answer("Good day");
        let body = json!({ "model": MODEL, "messages": messages, "stream": true, "max_tokens": 10, "temperature": 0 });
        let request = http.request(Method::POST, &path).header("accept-encoding", "gzip").json(&body);
        let streamed = http.send(request).await;
        assert_eq!(streamed.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!((streamed.header("cache-control"), streamed.header("content-encoding")), ("no-cache", ""));
        let expected = "data: {\"chunk\":\"Good day\",\"done\":false}\n\ndata: {\"chunk\":\"\",\"done\":true}\n\n";
        assert_eq!(streamed.text, expected);
        for stream in [false, true] {
            let body = json!({ "model": "x", "messages": messages, "stream": stream });
            let refused = http.json(Method::POST, &path, &body).await;
            assert_eq!((refused.status.as_u16(), refused.detail()), (400, json!("Invalid model: x")));
            let body = json!({ "model": MODEL, "messages": messages, "stream": stream });
            let failed = http.json(Method::POST, &path, &body).await;
            assert_eq!(failed.status, 500, "no answer is scripted: {failed:?}");
            assert!(failed.detail().as_str().unwrap().starts_with("Error processing LLM request: "), "{failed:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_run_without_credit_is_answered_with_402() {
    let credit = folio_metering::Options { monthly_allowance: 0, ..folio_metering::Options::default() };
    let server = Server::configured(credit, Default::default()).await;
    let client = server.member().await;
    let prompt = client.prompt("Total", &client.schema("Invoice", "total").await).await;
    let document = client.ready_document("a.txt", "Total 12.50").await.document_id;
    let path = format!("/v0/orgs/{}/llm/run/{document}?prompt_revid={prompt}", client.org);
    let refused = Http::new(&server, &client).json(Method::POST, &path, &Value::Null).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (402, &json!("SPU_EXHAUSTED")), "{refused:?}");
    assert!(refused.detail().as_str().unwrap().starts_with("Insufficient SPU credits: "), "{refused:?}");
    server.stop().await;
}
