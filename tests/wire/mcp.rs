//! The official client of MCP against a real server: over HTTP and over `folio mcp`, with and without a handshake.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::process::binary;
use crate::sandbox::{INVOICE, Sandbox};

/// No turn of these tests calls the model.
const SCRIPT: &str = "rules: [{when: {user: hello}, answer: {text: Hello.}}]";
const LIMIT: Duration = Duration::from_secs(600);

/// Returns the interpreter of Python with the client, which `cargo xtask test --install` installs.
fn python() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let installed = || cache().map(|cache| cache.join("folio-tools/python/bin/python3"));
    let python = variable("FOLIO_TEST_MCP_PYTHON").or_else(installed).unwrap_or_default();
    assert!(python.is_file(), "{} is missing: `cargo xtask test --install` installs it", python.display());
    python
}

/// Runs the client with a new document. `choice`: the answer of its user, or `none` for a client that does not elicit.
async fn report(sandbox: &Sandbox, is_stdio: bool, mode: &str, choice: &str) -> Value {
    let client = sandbox.client().await;
    let document = client.upload(&format!("invoice {mode} {choice} {is_stdio}.txt"), INVOICE.as_bytes()).await;
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("wire/mcp_client.py");
    let target = if is_stdio { "stdio".to_owned() } else { format!("{}/mcp", sandbox.url()) };
    let mut run = Command::new(python());
    run.kill_on_drop(true).current_dir(sandbox.folder()).env("FOLIO_TOKEN", sandbox.token());
    run.arg(script).args([&target, mode, &document, choice]);
    if is_stdio {
        run.arg(binary("folio")).args(["mcp", "--server", &sandbox.url()]);
    }
    let output = tokio::time::timeout(LIMIT, run.output()).await.expect("the client ends in time").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode} {choice}: {errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["found"]["documents"].as_array().unwrap().iter().any(|found| found["document_id"] == document));
    report
}

/// Checks what every client receives.
fn check(report: &Value, version: &str) {
    assert_eq!(report["version"], version);
    let tools: Vec<&str> = report["tools"].as_array().unwrap().iter().map(|tool| tool.as_str().unwrap()).collect();
    for tool in ["search_documents", "get_ocr_text", "run_extraction", "get_extraction_result", "get_turn"] {
        assert!(tools.contains(&tool), "{tools:?}");
    }
    assert!(!tools.contains(&"find_tools"), "{tools:?}");
    assert!(report["text"].to_string().contains("A-17"), "{}", report["text"]);
    assert!(report["resource"].as_str().unwrap().contains("A-17"), "{}", report["resource"]);
    assert!(report["templates"][0].as_str().unwrap().starts_with("folio://documents/"));
    assert_eq!(report["repeated"], report["created"], "a repeated request id repeats no effect");
    assert_eq!(report["state"], report["created"]);
}

/// Returns the number of tags of the organization.
async fn tags(sandbox: &Sandbox) -> usize {
    sandbox.client().await.tag_names().await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_reads_asks_its_user_and_repeats_calls() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let mut created = 0;
    for (is_stdio, mode, version) in [
        (false, "2026-07-28", "2026-07-28"),
        (false, "auto", "2026-07-28"),
        (false, "legacy", "2025-11-25"),
        (true, "auto", "2026-07-28"),
        (true, "legacy", "2025-11-25"),
    ] {
        let approved = report(&sandbox, is_stdio, mode, "approve").await;
        check(&approved, version);
        assert!(approved["created"]["tag_id"].is_string(), "{approved}");
        assert_eq!((&approved["is_error"], &approved["wrong"]), (&json!(false), &json!(true)));
        let questions = approved["questions"].as_array().unwrap();
        assert_eq!(questions.len(), 1, "{questions:?}");
        assert!(questions[0].as_str().unwrap().contains("create_tag"), "{questions:?}");
        created += 1;
        assert_eq!(tags(&sandbox).await, created, "invariant 3");
    }
    let rejected = report(&sandbox, false, "2026-07-28", "reject").await;
    assert_eq!((&rejected["is_error"], tags(&sandbox).await), (&json!(true), created), "invariant 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_elicit_receives_the_state_of_a_waiting_call() {
    let sandbox = Sandbox::start(SCRIPT).await;
    let report = report(&sandbox, false, "2026-07-28", "none").await;
    check(&report, "2026-07-28");
    let created = &report["created"];
    assert_eq!((&created["status"], &created["turn_id"]), (&json!("waiting_for_approval"), &report["turn"]));
    assert!(report["questions"].as_array().unwrap().is_empty());
    assert_eq!(tags(&sandbox).await, 0, "invariant 2");
    assert_eq!(sandbox.sim.chat_requests().await.len(), 0, "no model is called");
}
