//! A node dies around a call of an MCP server that writes: the call is sent at most once, and a call without an outcome is
//! reported as unknown.

use folio_proto::v1;
use folio_proto::v1::mcp_server_service_client::McpServerServiceClient;
use folio_testkit::wait_for;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::Client;
use folio_tests::harness::mcp_server::McpServerDouble;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, assert_completed, on_cluster};

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: ticket}, round: 2}
    answer: {text: Done.}
  - when: {user: {prefix: ticket}}
    answer: {calls: [{name: write_to_server, arguments: {server: tickets, tool: create, arguments: {title: broken}}}]}
";

/// Stores the server `tickets` with this URL, and allows its tool `create` to write.
async fn allow_server(client: &Client, url: String) {
    let mut servers = McpServerServiceClient::new(client.channel.clone());
    let server = v1::McpServer { name: "tickets".to_owned(), url, enabled: true, ..Default::default() };
    let request = v1::CreateMcpServerRequest { mcp_server: Some(server), ..Default::default() };
    let created = servers.create_mcp_server(request).await.expect("the server is created").into_inner();
    let mcp_server_id = created.mcp_server.expect("a server").mcp_server_id;
    let request = v1::DiscoverMcpToolsRequest { mcp_server_id: mcp_server_id.clone() };
    let offered = servers.discover_mcp_tools(request).await.expect("the server answers").into_inner().mcp_tools;
    let [tool] = &offered[..] else { panic!("one tool is expected: {offered:?}") };
    let tool = v1::AllowedMcpTool {
        name: tool.name.clone(),
        is_write: true,
        digest: tool.digest.clone(),
        ..Default::default()
    };
    let server = v1::McpServer { mcp_server_id, allowed_tools: vec![tool], ..Default::default() };
    let request = v1::UpdateMcpServerRequest { mcp_server: Some(server), ..Default::default() };
    servers.update_mcp_server(request).await.expect("the tool is allowed");
}

/// Returns the result of the only call of a turn whose node died, as soon as the turn is completed. Decisions that died with the
/// node are sent again.
async fn result_after_recovery(test: &TestCluster, request: &v1::ApproveRequest) -> v1::CallResult {
    let turn = request.turn_id.as_str();
    test.wait_until_idle(turn).await;
    match test.turn(turn).await.status() {
        v1::TurnStatus::AwaitingApproval => assert_completed(&test.approve_until_accepted(1, request).await),
        v1::TurnStatus::Failed => test.resume(turn).await,
        _ => {}
    }
    let ended = test.client(1).await.until(turn, v1::TurnStatus::Completed).await;
    let mut results = ended.rounds.into_iter().flat_map(|round| round.results);
    let first = results.next().expect("a result");
    assert!(results.next().is_none(), "the model repeats no call");
    first
}

#[track_caller]
fn assert_sent_once(server: &McpServerDouble, what: &str) {
    assert_eq!(server.calls(), [json!({ "name": "create", "arguments": { "title": "broken" } })], "{what}");
}

#[track_caller]
fn assert_unknown(result: &v1::CallResult, what: &str) {
    assert_eq!(result.status(), v1::CallStatus::Unknown, "{what}: {result:?}");
    let content: Value = serde_json::from_str(&result.content).expect("the result is JSON");
    assert_eq!(content["outcome"], "unknown", "{what}: {content}");
}

#[test]
fn invariant_3_a_node_may_die_at_each_step_of_a_call_that_writes_to_a_server() {
    // Before the intent, between the intent and the call, after the call, and after the outcome.
    for (point, has_outcome) in [
        ("plan:after", true),
        ("intent:before", true),
        ("intent:after", true),
        ("write:before", true),
        ("write:after", false),
        ("outcome:before", false),
        ("outcome:after", true),
    ] {
        on_cluster(SCRIPT, async |test| {
            let (server, url) = McpServerDouble::start().await;
            allow_server(&test.client(0).await, url).await;
            let waiting = test.paused_at(0, "ticket", &[("FOLIO_FAILPOINT", point)], &[]).await;
            assert!(server.calls().is_empty(), "{point}: nothing is sent without an approval");
            let request = TestCluster::approvals_of(&waiting);
            test.approve_until_dead(&request, 0).await;
            let result = result_after_recovery(test, &request).await;
            assert_sent_once(&server, point);
            if has_outcome {
                assert_eq!(result.status(), v1::CallStatus::Ok, "{point}: {result:?}");
            } else {
                assert_unknown(&result, point);
            }
            test.assert_clean().await;
        });
    }
}

#[test]
fn invariant_3_a_node_may_die_while_an_mcp_server_executes_a_call() {
    on_cluster(SCRIPT, async |test| {
        let (server, url) = McpServerDouble::start().await;
        allow_server(&test.client(0).await, url).await;
        let waiting = test.paused_at(0, "ticket", &[], &[]).await;
        server.fall_silent();
        let received = || std::future::ready((!server.calls().is_empty()).then_some(()));
        let request = TestCluster::approvals_of(&waiting);
        test.approve_until(&request, wait_for("the call at the server", LIMIT, received)).await;
        test.node(0).kill();
        let result = result_after_recovery(test, &request).await;
        assert_sent_once(&server, "the call in progress");
        assert_unknown(&result, "the call in progress");
        test.assert_clean().await;
    });
}
