//! Completions whose callers disconnect.

use std::time::Duration;

use folio_testkit::wait_for;
use folio_types::{OrgId, Role, System};
use serde_json::json;

use crate::harness::{Answer, Server};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_completion_whose_caller_left_is_charged_once() {
    let server = Server::start().await;
    let admin = server.user(&OrgId::generate(&System), Role::Admin).await;
    server.model.next(Answer::Hang);
    let caller = admin.clone();
    let message = json!({"role": "COMPLETION_ROLE_USER", "text": "hello"});
    let request = json!({"parameters": {"messages": [message]}});
    let call = tokio::spawn(async move { caller.call("StreamCompletion", request).await });
    wait_for("the model call", SOON, async || (server.model.calls() == 1).then_some(())).await;
    call.abort();
    let usage = wait_for("the charge of the aborted call", SOON, async || {
        let usage = admin.call_ok("GetUsage", json!({"group_by": ["USAGE_GROUP_OPERATION"]})).await;
        usage["rows"].as_array().is_some_and(|rows| !rows.is_empty()).then_some(usage)
    })
    .await;
    let row = &usage["rows"][0];
    assert_eq!((&row["operation"], &row["calls"]), (&json!("completion"), &json!("1")), "{usage}");
    // The prompt is charged, and no answer.
    assert!(row["input_tokens"].is_string() && row["output_tokens"].is_null(), "{usage}");
    server.stop().await;
}
