//! Tests of the endpoint over HTTP: responses, streams, faults, controls.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use llm_sim::{Fault, FaultPlan, FaultTarget, LlmSim, Outcome, Pacing, Script};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);

const SCRIPT: &str = "
rules:
  - when: {user: {contains: tools}}
    rounds:
      - text: Looking.
        thinking: [{text: Let me see what there is., signature: sig-1}]
        calls:
          - {id: call_0, name: list_tags, arguments: {limit: 5}}
          - {id: call_0, name: broken, raw_arguments: '{\"a\": '}
      - text: 'There are {{last.list_tags.total}}.'
  - when: {user: hold}
    fault: {hold: {gate: g, after_chunks: 2}}
    answer: {text: 'one two three four five six'}
  - answer: {text: 'äöü and a few more words, so that there are chunks', usage: {prompt_tokens: 7, completion_tokens: 3}}
";

async fn start() -> LlmSim {
    LlmSim::builder().script(Script::parse(SCRIPT).unwrap()).start().await.unwrap()
}

fn body(text: &str, stream: bool) -> Value {
    let options = if stream { json!({"include_usage": true}) } else { Value::Null };
    json!({"model": "m", "stream": stream, "stream_options": options, "messages": [{"role": "user", "content": text}]})
}

async fn post(sim: &LlmSim, body: &Value) -> reqwest::Result<reqwest::Response> {
    reqwest::Client::new().post(format!("{}/chat/completions", sim.url())).json(body).send().await
}

async fn control(sim: &LlmSim, method: reqwest::Method, path: &str, body: String) -> reqwest::Response {
    let url = format!("http://{}/sim/{path}", sim.address());
    reqwest::Client::new().request(method, url).body(body).send().await.unwrap()
}

fn events(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[tokio::test]
async fn a_stream_and_a_single_body_contain_the_same_answer() {
    let sim = start().await;
    let complete: Value = post(&sim, &body("x", false)).await.unwrap().json().await.unwrap();
    let text = post(&sim, &body("x", true)).await.unwrap().text().await.unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"));
    let events = events(&text);
    let content = complete["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(joined(&events, "/choices/0/delta/content"), content);
    assert_eq!(complete["choices"][0]["finish_reason"], "stop");
    assert_eq!(joined(&events, "/choices/0/finish_reason"), "stop");
    assert_eq!(complete["usage"]["prompt_tokens"], 7);
    assert_eq!(events.last().unwrap()["usage"], complete["usage"]);
    sim.shutdown().await;
}

#[tokio::test]
async fn tool_calls_thinking_and_templates_go_over_the_wire() {
    let sim = start().await;
    let events = events(&post(&sim, &body("tools", true)).await.unwrap().text().await.unwrap());
    assert_eq!(joined(&events, "/choices/0/delta/reasoning_content"), "Let me see what there is.");
    assert_eq!(joined(&events, "/choices/0/delta/thinking_blocks/0/signature"), "sig-1");
    assert_eq!(joined(&events, "/choices/0/delta/tool_calls/0/id"), "call_0call_0");
    assert_eq!(joined(&events, "/choices/0/delta/tool_calls/0/function/arguments"), "{\"limit\":5}{\"a\": ");
    assert_eq!(joined(&events, "/choices/0/finish_reason"), "tool_calls");
    let call = json!({"id": "a", "type": "function", "function": {"name": "list_tags", "arguments": "{}"}});
    let mut next = body("tools", false);
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    messages.push(json!({"role": "tool", "tool_call_id": "a", "content": "{\"total\": 4}"}));
    let answer: Value = post(&sim, &next).await.unwrap().json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "There are 4.");
}

#[tokio::test]
async fn the_record_shows_that_a_client_disconnected_early() {
    let sim = start().await;
    let response = post(&sim, &body("hold", true)).await.unwrap();
    sim.wait_until(LIMIT, |all| all.iter().any(|r| r.outcome == Outcome::Waiting)).await.unwrap();
    drop(response);
    let requests = sim.wait_until(LIMIT, |all| all[0].outcome == Outcome::ClosedByClient).await.unwrap();
    assert_eq!(requests[0].chunks_sent, 2);
}

#[tokio::test]
async fn the_record_may_contain_hashes_of_the_bodies() {
    let sim = LlmSim::builder().script(Script::parse(SCRIPT).unwrap()).hash_bodies().start().await.unwrap();
    for text in ["one", "two", "one"] {
        post(&sim, &body(text, false)).await.unwrap();
    }
    let requests = sim.requests();
    let [first, other, repeated] = &requests[..] else { panic!("three requests") };
    assert!(first.body.is_u64() && first.body == repeated.body && first.body != other.body);
}

#[tokio::test]
async fn a_waiting_answer_continues_when_its_gate_opens() {
    let sim = start().await;
    let response = post(&sim, &body("hold", true)).await.unwrap();
    sim.wait_until(LIMIT, |all| all.iter().any(|r| r.outcome == Outcome::Waiting)).await.unwrap();
    assert_eq!(control(&sim, reqwest::Method::POST, "gates/g", String::new()).await.status(), 204);
    let events = events(&response.text().await.unwrap());
    assert_eq!(joined(&events, "/choices/0/delta/content"), "one two three four five six");
    sim.wait_until(LIMIT, |all| all[0].outcome == Outcome::Finished).await.unwrap();
}

#[tokio::test]
async fn each_fault_is_visible_to_the_client() {
    let sim = start().await;
    let limited = Fault::Status { code: 429, retry_after: Some(3), body: None };
    sim.set_faults(FaultPlan::first(1, limited));
    let response = post(&sim, &body("x", true)).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "3"));
    assert_eq!(post(&sim, &body("x", true)).await.unwrap().status(), 200);

    for stream in [true, false] {
        sim.set_faults(FaultPlan::always(Fault::Reset { after_chunks: 0 }));
        assert!(post(&sim, &body("x", stream)).await.is_err());
        sim.set_faults(FaultPlan::always(Fault::Reset { after_chunks: 2 }));
        assert!(post(&sim, &body("x", stream)).await.unwrap().text().await.is_err());
        sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 2, broken: true }));
        assert!(post(&sim, &body("x", stream)).await.unwrap().text().await.is_err());
        sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 2, broken: false }));
        let cut = post(&sim, &body("x", stream)).await.unwrap().text().await.unwrap();
        assert!(!cut.contains("[DONE]") && !cut.contains("stop"), "{cut}");
        sim.set_faults(FaultPlan::always(Fault::Garbage { after_chunks: 0 }));
        assert!(post(&sim, &body("x", stream)).await.unwrap().json::<Value>().await.is_err());
        sim.set_faults(FaultPlan::always(Fault::NoFinish));
        assert!(!post(&sim, &body("x", stream)).await.unwrap().text().await.unwrap().contains("\"stop\""));
        sim.set_faults(FaultPlan::always(Fault::Flood { bytes: 300_000 }));
        assert!(post(&sim, &body("x", stream)).await.unwrap().text().await.unwrap().len() > 300_000);
    }
    sim.set_faults(FaultPlan::always(Fault::SlowStart { ms: 60 }));
    let start_time = Instant::now();
    post(&sim, &body("x", true)).await.unwrap();
    assert!(start_time.elapsed() >= Duration::from_millis(60));

    sim.set_faults(FaultPlan::always(Fault::Hang { after_chunks: 1 }));
    let mut stream = post(&sim, &body("x", true)).await.unwrap().bytes_stream();
    assert!(stream.next().await.unwrap().is_ok());
    assert!(tokio::time::timeout(Duration::from_millis(50), stream.next()).await.is_err());
    drop(stream);
    sim.set_faults(FaultPlan::always(Fault::Hang { after_chunks: 0 }));
    assert!(tokio::time::timeout(Duration::from_millis(50), post(&sim, &body("x", true))).await.is_err());
    sim.wait_until(LIMIT, |all| all.iter().all(|r| r.outcome != Outcome::Waiting)).await.unwrap();
}

#[tokio::test]
async fn the_control_routes_set_script_and_faults_and_report_errors() {
    let sim = start().await;
    let script = "rules:\n  - answer: {text: new}\n";
    assert_eq!(control(&sim, reqwest::Method::PUT, "script", script.to_owned()).await.status(), 204);
    let answer: Value = post(&sim, &body("x", false)).await.unwrap().json().await.unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "new");
    let refused = control(&sim, reqwest::Method::PUT, "script", "rules:\n  - anwser: {}\n".to_owned()).await;
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("line 2"));
    let faults = json!([{"nth": 1, "fault": {"status": {"code": 500}}}]).to_string();
    assert_eq!(control(&sim, reqwest::Method::PUT, "faults", faults).await.status(), 204);
    assert_eq!(post(&sim, &body("x", false)).await.unwrap().status(), 500);
    let refused = control(&sim, reqwest::Method::PUT, "faults", "[{\"fault\": \"nope\"}]".to_owned()).await;
    assert_eq!(refused.status(), 400);
    let record: Vec<Value> = control(&sim, reqwest::Method::GET, "requests", String::new()).await.json().await.unwrap();
    assert_eq!(record.len(), 2);
    assert_eq!(control(&sim, reqwest::Method::POST, "reset", String::new()).await.status(), 204);
    assert!(sim.requests().is_empty());
}

#[tokio::test]
async fn a_request_that_no_rule_answers_or_that_is_malformed_is_refused() {
    let sim = LlmSim::builder().script(Script::parse("rules: []").unwrap()).api_key("k").start().await.unwrap();
    assert_eq!(post(&sim, &body("x", false)).await.unwrap().status(), 401);
    let url = format!("{}/chat/completions", sim.url());
    let keyed = |text: &'static str| reqwest::Client::new().post(&url).bearer_auth("k").body(text).send();
    let refused = keyed(r#"{"model": "m", "messages": [{"role": "user", "content": "hello"}]}"#).await.unwrap();
    assert_eq!(refused.status(), 400);
    assert!(refused.text().await.unwrap().contains("no rule of the script matches"));
    assert_eq!(keyed("{nope").await.unwrap().status(), 400);
    assert_eq!(sim.requests()[1].header("authorization"), Some("present"));
}

#[tokio::test]
async fn embeddings_and_models_are_served() {
    let sim = start().await;
    let client = reqwest::Client::new();
    let models: Value = client.get(format!("{}/models", sim.url())).send().await.unwrap().json().await.unwrap();
    assert_eq!(models["data"][0]["id"], "scripted");
    let body = json!({"model": "e", "input": ["a b", "a b"], "dimensions": 16});
    let request = client.post(format!("{}/embeddings", sim.url())).json(&body);
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(answer["data"][0]["embedding"], answer["data"][1]["embedding"]);
    assert_eq!(answer["data"][0]["embedding"].as_array().unwrap().len(), 16);
}

#[tokio::test]
async fn reranking_is_served_and_faults_are_injected_by_the_kind_of_request() {
    let sim = start().await;
    let client = reqwest::Client::new();
    let request = |path: &str, body: Value| client.post(format!("{}/{path}", sim.url())).json(&body).send();
    let rerank = || request("rerank", json!({"model": "r", "query": "red fox", "documents": ["a dog", "the red fox"]}));
    let embed = || request("embeddings", json!({"model": "e", "input": "a"}));
    let answer: Value = rerank().await.unwrap().json().await.unwrap();
    assert_eq!((&answer["results"][0]["index"], answer["results"].as_array().unwrap().len()), (&json!(1), 2));
    assert_eq!(request("rerank", json!({"model": "r"})).await.unwrap().status(), 400);
    let status = Fault::Status { code: 503, retry_after: None, body: None };
    sim.set_faults(FaultPlan::first(1, status.clone()).on(FaultTarget::Embeddings));
    assert_eq!(rerank().await.unwrap().status(), 200);
    assert_eq!(post(&sim, &body("x", false)).await.unwrap().status(), 200);
    assert_eq!(embed().await.unwrap().status(), 503);
    assert_eq!(embed().await.unwrap().status(), 200);
    sim.set_faults(FaultPlan::always(status).on(FaultTarget::Rerank));
    assert_eq!(rerank().await.unwrap().status(), 503);
    sim.set_faults(FaultPlan::always(Fault::Cut { after_chunks: 1, broken: true }).on(FaultTarget::Embeddings));
    assert!(embed().await.unwrap().text().await.is_err());
    sim.set_faults(FaultPlan::always(Fault::Flood { bytes: 100_000 }).on(FaultTarget::Embeddings));
    assert!(embed().await.unwrap().text().await.unwrap().len() > 100_000);
    sim.set_faults(FaultPlan::always(Fault::Reset { after_chunks: 0 }).on(FaultTarget::Embeddings));
    assert!(embed().await.is_err());
}

#[tokio::test]
async fn a_constant_script_streams_the_same_events_with_and_without_a_record() {
    let builder = || {
        let pacing = Pacing { chunk_tokens: 1, ..Pacing::default() };
        LlmSim::builder().script(Script::always("just this")).pacing(pacing)
    };
    let sim = builder().record(0).start().await.unwrap();
    let recorded = builder().start().await.unwrap();
    let plain = |text: String| {
        let mut events = events(&text);
        events.iter_mut().for_each(|event| event["id"] = Value::Null);
        events
    };
    for _ in 0..3 {
        let constant = plain(post(&sim, &body("anything", true)).await.unwrap().text().await.unwrap());
        let usual = plain(post(&recorded, &body("anything", true)).await.unwrap().text().await.unwrap());
        assert_eq!(constant, usual);
        assert_eq!(constant.iter().filter(|event| event.pointer("/choices/0/delta/content").is_some()).count(), 4);
    }
    assert!(sim.requests().is_empty());
    sim.set_script(Script::always("something else"));
    let text = post(&sim, &body("anything", true)).await.unwrap().text().await.unwrap();
    assert_eq!(joined(&events(&text), "/choices/0/delta/content"), "something else");
}

#[tokio::test]
async fn shutting_down_ends_hanging_answers() {
    let sim = start().await;
    sim.set_faults(FaultPlan::always(Fault::Hang { after_chunks: 1 }));
    let response = post(&sim, &body("x", true)).await.unwrap();
    sim.wait_until(LIMIT, |all| all.iter().any(|r| r.outcome == Outcome::Waiting)).await.unwrap();
    let url = sim.url();
    tokio::time::timeout(LIMIT, sim.shutdown()).await.unwrap();
    drop(response);
    assert!(reqwest::get(format!("{url}/models")).await.is_err());
}
