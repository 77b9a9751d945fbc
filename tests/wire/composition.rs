//! Tests the roles as separate processes on real Redis and CQL servers: a gateway forwards requests, and a node runs
//! turns.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_proto::v1::audit_service_client::AuditServiceClient;
use folio_tests::harness::cluster::Launcher;
use folio_tests::harness::settings;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, approved, ask, decide};
use crate::command_line::{folio, text};
use crate::sim::Sim;
use crate::{LIMIT, within};

const SCRIPT: &str = "
rules:
  - when: {user: held}
    rounds:
      - text: The end.
    fault: {hold: {gate: last}}
  - when: {user: tag}
    rounds:
      - calls: [{name: create_tag, arguments: {name: approved}}]
      - text: Done.
";

/// The scripted model of a test, and the launcher of its processes.
struct Fixture {
    _folder: TempDir,
    sim: Sim,
    launcher: Launcher,
}

impl Fixture {
    /// Chooses a keyspace for one test, and starts a model that plays the script.
    async fn start() -> Self {
        let servers = tokio::task::spawn_blocking(|| (folio_test_servers::redis_url(), folio_test_servers::cql()));
        let (redis, cql) = servers.await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let sim = Sim::start(folder.path(), SCRIPT).await;
        std::fs::write(folder.path().join("folio.toml"), settings::for_models_at(&sim.base_url())).unwrap();
        let keyspace = format!("wire_{:x}", rand::random::<u64>());
        let launcher = Launcher::new(folder.path(), &redis.unwrap(), &cql.unwrap(), &keyspace, 1);
        Self { _folder: folder, sim, launcher }
    }

    /// Runs a command on the stores and returns its standard output. Panics if the command fails.
    fn command(&self, words: &[&str]) -> String {
        let output = self.launcher.run(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Waits until `folio cluster status` reports this number of nodes in this state.
    async fn wait_for_nodes(&self, state: &str, count: usize) {
        folio_testkit::wait_for(&format!("{count} nodes that are {state}"), LIMIT, || async {
            let status: Value = serde_json::from_str(&self.command(&["cluster", "status", "--json"])).unwrap();
            let nodes = status["nodes"].as_array().unwrap();
            (nodes.iter().filter(|node| node["state"] == state).count() == count).then_some(())
        })
        .await;
    }
}

fn token_in(printed: &str) -> String {
    printed.lines().find(|line| line.starts_with("folio_")).expect("a token is printed").to_owned()
}

#[tokio::test]
async fn a_migrated_cluster_shares_conversations_and_a_draining_node_ends_its_turn() {
    let fixture = Fixture::start().await;
    let migrated = fixture.command(&["migrate"]);
    assert!(migrated.contains("created, version "), "{migrated}");
    let repeated = fixture.command(&["migrate"]);
    assert!(repeated.contains("up to date") && !repeated.contains("admin token"), "{repeated}");

    let node = fixture.launcher.node();
    let gateways = [fixture.launcher.gateway(), fixture.launcher.gateway()];
    assert!([&node].into_iter().chain(&gateways).all(|process| !process.printed().contains("admin token")));
    fixture.wait_for_nodes("up", 1).await;
    let token = token_in(&migrated);
    let one = Client::connect(&gateways[0].url(), Some(&token)).await;
    let other = Client::connect(&gateways[1].url(), Some(&token)).await;

    // The index of approvals is as new as the cluster.
    let variables = [("FOLIO_SERVER", gateways[0].url()), ("FOLIO_TOKEN", token.clone())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let inbox = folio(&std::env::temp_dir(), &["inbox"], &variables, "");
    assert!(inbox.status.success(), "{}", text(&inbox.stderr));
    assert!(text(&inbox.stderr).contains("approvals may be missing"), "{}", text(&inbox.stderr));

    // The gateway receives the document, and the node reads it.
    let document = one.upload("invoice.txt", b"Invoice Number: A-17\nTotal: 957.00 EUR\n").await;
    // A gateway that has just started may not know the node or the owner yet.
    let chat = || async { one.send(ask(&document, "tag")).await.ok() };
    let waiting = folio_testkit::wait_for("an accepted chat", LIMIT, chat).await.pause().await;
    let approval = || async { other.approve(decide(&waiting, approved)).await.ok() };
    let answer = folio_testkit::wait_for("an accepted approval", LIMIT, approval).await;
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    assert_eq!(one.tag_names().await, ["approved"]);

    let chat = || async { other.send(ask(&document, "held")).await.ok() };
    let mut running = folio_testkit::wait_for("an accepted chat", LIMIT, chat).await;
    running.until("turn_started").await;
    fixture.sim.wait_for_waiting_request().await;
    node.send_sigterm();
    fixture.wait_for_nodes("draining", 1).await;
    fixture.sim.open_gate("last").await;
    running.completed().await;
    assert!(node.wait_for_exit(), "the node exits with status 0");
    fixture.wait_for_nodes("up", 0).await;
    for gateway in gateways {
        assert!(gateway.stop().await, "the gateway exits with status 0");
    }
}

#[tokio::test]
async fn every_role_serves_probes_and_metrics_and_a_lone_gateway_reports_that_no_node_is_available() {
    let fixture = Fixture::start().await;
    // Without `migrate`, the first process creates the organization, and only one token is stored.
    let gateway = fixture.launcher.gateway();
    let client = Client::connect(&gateway.url(), Some(&token_in(gateway.printed()))).await;
    let document = client.try_upload("a.txt", b"Total: 5").await.expect("an upload needs no node");
    let Err(refused) = client.send(ask(&document.document_id, "tag")).await else {
        panic!("the chat ran without a node")
    };
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");

    let node = fixture.launcher.node();
    assert!(!node.printed().contains("admin token"));
    fixture.wait_for_nodes("up", 1).await;
    for (process, metric) in [(&gateway, "folio_nodes_up 1"), (&node, "folio_conversations 0")] {
        let health = format!("http://{}", process.printed_after("health on ").unwrap());
        let what = format!("{metric} of {health}");
        let found = async || {
            let page = reqwest::get(format!("{health}/metrics")).await.ok()?.text().await.ok()?;
            page.lines().any(|line| line == metric).then_some(())
        };
        folio_testkit::wait_for(&what, LIMIT, found).await;
        let (is_success, output) = run_health(&health);
        assert!(is_success, "{output}");
    }
    let own = format!("http://{}", node.printed_after("node on ").unwrap());
    let (is_success, output) = run_health(&own);
    assert!(is_success && output.contains("SERVING"), "health on the node's own port: {output}");

    let token = token_in(&fixture.command(&["migrate", "--admin-token"]));
    let client = Client::connect(&gateway.url(), Some(&token)).await;
    within("a list", client.tag_names()).await;
    let log = v1::ListAuditEntriesRequest { order_by: "create_time".into(), ..Default::default() };
    let mut audits = AuditServiceClient::new(client.channel.clone());
    let log = within("the audit log", audits.list_audit_entries(log)).await.unwrap().into_inner();
    let subjects: Vec<_> = log.entries.iter().map(|entry| entry.subject.as_str()).collect();
    assert_eq!(subjects, ["first start", "folio migrate --admin-token"]);
    assert!(gateway.stop().await && node.stop().await);
}

fn run_health(url: &str) -> (bool, String) {
    let output = folio(&std::env::temp_dir(), &["health", url], &[], "");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}
