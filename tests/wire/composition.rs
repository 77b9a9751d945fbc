//! Tests the roles as separate processes on real Redis and CQL servers: a gateway forwards requests, and a node runs
//! turns.

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_proto::v1::audit_service_client::AuditServiceClient;
use folio_tests::harness::settings;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, ask};
use crate::command_line::{folio, text};
use crate::process::Process;
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

/// The stores, settings and scripted model of a test. Starts the processes that use them.
struct Cluster {
    folder: TempDir,
    sim: Sim,
    variables: Vec<(&'static str, String)>,
    stores: Vec<String>,
}

impl Cluster {
    /// Creates a keyspace for one test, and starts a model that plays the script.
    async fn start() -> Self {
        let name = format!("wire_{:x}", rand::random::<u64>());
        let servers = tokio::task::spawn_blocking(|| (folio_test_servers::redis_url(), folio_test_servers::cql()));
        let (redis, cql) = servers.await.unwrap();
        let stores = ["--redis", &redis.unwrap(), "--cql", &cql.unwrap()].map(str::to_owned).to_vec();
        let folder = tempfile::tempdir().unwrap();
        let sim = Sim::start(folder.path(), SCRIPT).await;
        std::fs::write(folder.path().join("folio.toml"), settings::for_models_at(&sim.base_url())).unwrap();
        let variables = vec![
            ("FOLIO_STORAGE__CQL__KEYSPACE", name.clone()),
            ("FOLIO_STORAGE__CQL__REPLICATION_FACTOR", "1".to_owned()),
            ("FOLIO_STORAGE__REDIS__PREFIX", name),
            ("FOLIO_CLUSTER__SECRETS", "[\"a secret of a test, thirty-two bytes or more\"]".to_owned()),
        ];
        Self { folder, sim, variables, stores }
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Runs a command with the stores to its end. Returns its standard output if it succeeded.
    fn command(&self, words: &[&str]) -> String {
        let words: Vec<&str> = words.iter().copied().chain(self.stores.iter().map(String::as_str)).collect();
        let output = folio(self.folder.path(), &words, &self.variables(), "");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    fn serve(&self, role: &[&str]) -> Process {
        let blobs = self.folder.path().join("blobs");
        let mut line = vec!["serve", "--health-listen", "127.0.0.1:0", "--blobs", blobs.to_str().unwrap(), "--roles"];
        line.extend(role);
        line.extend(self.stores.iter().map(String::as_str));
        Process::start("folio", self.folder.path(), &line, &self.variables())
    }

    fn node(&self) -> Process {
        self.serve(&["node", "--node-listen", "127.0.0.1:0"])
    }

    fn gateway(&self) -> Process {
        self.serve(&["gateway", "--listen", "127.0.0.1:0"])
    }

    /// Waits until `folio cluster status` reports this number of nodes in this state.
    async fn until(&self, state: &str, count: usize) {
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
    let cluster = Cluster::start().await;
    let migrated = cluster.command(&["migrate"]);
    assert!(migrated.contains("created, version "), "{migrated}");
    let again = cluster.command(&["migrate"]);
    assert!(again.contains("up to date") && !again.contains("admin token"), "{again}");

    let node = cluster.node();
    let gateways = [cluster.gateway(), cluster.gateway()];
    assert!([&node].into_iter().chain(&gateways).all(|process| !process.printed().contains("admin token")));
    cluster.until("up", 1).await;
    let token = token_in(&migrated);
    let one = Client::connect(&gateways[0].url(), Some(&token)).await;
    let other = Client::connect(&gateways[1].url(), Some(&token)).await;

    // The gateway receives the document, and the node reads it.
    let document = one.upload("invoice.txt", b"Invoice Number: A-17\nTotal: 957.00 EUR\n").await;
    let waiting = one.chat(&document, "tag").await.pause().await;
    let answer = other.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    assert_eq!(one.tag_names().await, ["approved"]);

    let mut running = other.chat(&document, "held").await;
    running.until("turn_started").await;
    cluster.sim.until_held().await;
    node.ask_to_stop();
    cluster.until("draining", 1).await;
    cluster.sim.open("last").await;
    running.completed().await;
    assert!(node.ended(), "the node ends in order");
    cluster.until("up", 0).await;
    for gateway in gateways {
        assert!(gateway.stop().await, "the gateway ends in order");
    }
}

#[tokio::test]
async fn every_role_serves_probes_and_metrics_and_a_lone_gateway_reports_that_no_node_is_available() {
    let cluster = Cluster::start().await;
    // Without `migrate`, the first process creates the organization, and only one token is stored.
    let gateway = cluster.gateway();
    let client = Client::connect(&gateway.url(), Some(&token_in(gateway.printed()))).await;
    let document = client.try_upload("a.txt", b"Total: 5").await.expect("an upload needs no node");
    let Err(refused) = client.send(ask(&document.document_id, "tag")).await else {
        panic!("the chat ran without a node")
    };
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");

    let node = cluster.node();
    assert!(!node.printed().contains("admin token"));
    cluster.until("up", 1).await;
    for (process, figure) in [(&gateway, "folio_nodes_up 1"), (&node, "folio_conversations 0")] {
        let health = format!("http://{}", process.announced("health on ").unwrap());
        let what = format!("{figure} of {health}");
        let found = async || {
            let page = reqwest::get(format!("{health}/metrics")).await.ok()?.text().await.ok()?;
            page.lines().any(|line| line == figure).then_some(())
        };
        folio_testkit::wait_for(&what, LIMIT, found).await;
        let (done, subjects) = answers(&cluster, &health);
        assert!(done, "{subjects}");
    }
    let own = format!("http://{}", node.announced("node on ").unwrap());
    let (done, subjects) = answers(&cluster, &own);
    assert!(done && subjects.contains("SERVING"), "health on the node's own port: {subjects}");

    let token = token_in(&cluster.command(&["migrate", "--admin-token"]));
    let client = Client::connect(&gateway.url(), Some(&token)).await;
    within("a list", client.tag_names()).await;
    let log = v1::ListAuditEntriesRequest { order_by: "create_time".into(), ..Default::default() };
    let mut audits = AuditServiceClient::new(client.channel.clone());
    let log = within("the audit log", audits.list_audit_entries(log)).await.unwrap().into_inner();
    let subjects: Vec<_> = log.entries.iter().map(|entry| entry.subject.as_str()).collect();
    assert_eq!(subjects, ["first start", "folio migrate --admin-token"]);
    assert!(gateway.stop().await && node.stop().await);
}

fn answers(cluster: &Cluster, url: &str) -> (bool, String) {
    let output = folio(cluster.folder.path(), &["health", url], &[], "");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}
