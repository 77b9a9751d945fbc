//! The roles as processes of their own on real Redis and CQL: a gateway forwards, a node runs the turns.

use std::sync::atomic::{AtomicU32, Ordering};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_proto::v1::audit_service_client::AuditServiceClient;
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

/// The stores of a test, and the processes on them.
struct Cluster {
    folder: TempDir,
    sim: Sim,
    variables: Vec<(&'static str, String)>,
    stores: Vec<String>,
    token: String,
}

impl Cluster {
    /// Creates a keyspace for one test and migrates it, and starts a model that plays the script.
    async fn start() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("wire_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let servers = tokio::task::spawn_blocking(|| (folio_test_servers::redis_url(), folio_test_servers::cql()));
        let (redis, cql) = servers.await.unwrap();
        let (redis, cql) = (redis.unwrap(), cql.unwrap());
        let folder = tempfile::tempdir().unwrap();
        let sim = Sim::start(folder.path(), SCRIPT).await;
        let settings = format!(
            "[models]\ndefault_model = \"scripted\"\n[models.providers.sim]\nbase_url = \"{}\"\napi_key = \"sim-key\"\n\
             [models.providers.sim.models.scripted]\ncontext_tokens = 65536\n",
            sim.base_url()
        );
        std::fs::write(folder.path().join("folio.toml"), settings).unwrap();
        let variables = vec![
            ("FOLIO_STORAGE__CQL__KEYSPACE", name.clone()),
            ("FOLIO_STORAGE__CQL__REPLICATION_FACTOR", "1".to_owned()),
            ("FOLIO_STORAGE__REDIS__PREFIX", name),
            ("FOLIO_CLUSTER__SECRETS", "[\"a secret of a test, thirty-two bytes or more\"]".to_owned()),
        ];
        let stores = ["--redis", &redis, "--cql", &cql].map(str::to_owned).to_vec();
        Self { folder, sim, variables, stores, token: String::new() }
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Runs a command with the stores to its end. Returns whether it succeeded, and its output.
    fn command(&self, words: &[&str]) -> (bool, String) {
        let words: Vec<&str> = words.iter().copied().chain(self.stores.iter().map(String::as_str)).collect();
        let output = folio(self.folder.path(), &words, &self.variables(), "");
        let errors = text(&output.stderr);
        assert!(!errors.contains("panicked"), "{errors}");
        (output.status.success(), text(&output.stdout) + &errors)
    }

    fn serve(&self, role: &str, words: &[&str]) -> Process {
        let blobs = self.folder.path().join("blobs");
        let mut line = vec!["serve", "--roles", role, "--health-listen", "127.0.0.1:0", "--blobs"];
        line.push(blobs.to_str().unwrap());
        line.extend(words);
        line.extend(self.stores.iter().map(String::as_str));
        Process::start("folio", self.folder.path(), &line, &self.variables())
    }

    fn node(&self) -> Process {
        self.serve("node", &["--node-listen", "127.0.0.1:0"])
    }

    fn gateway(&self) -> Process {
        self.serve("gateway", &["--listen", "127.0.0.1:0"])
    }

    async fn client(&self, gateway: &Process) -> Client {
        Client::connect(&gateway.url(), Some(&self.token)).await
    }

    /// Returns the output of `folio cluster status --json`.
    fn status(&self) -> Value {
        let words: Vec<&str> =
            ["cluster", "status", "--json"].into_iter().chain(self.stores.iter().map(String::as_str)).collect();
        let output = folio(self.folder.path(), &words, &self.variables(), "");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    }

    /// Waits until this number of nodes is in this state.
    async fn until(&self, state: &str, count: usize) {
        folio_testkit::wait_for(&format!("{count} nodes that are {state}"), LIMIT, || async {
            let nodes = self.status()["nodes"].as_array().unwrap().clone();
            (nodes.iter().filter(|node| node["state"] == state).count() == count).then_some(())
        })
        .await;
    }
}

/// Returns the rest of the line of a process's output that begins with this text.
fn logged(process: &Process, beginning: &str) -> String {
    let line = process.printed().lines().find_map(|line| line.strip_prefix(beginning));
    line.unwrap_or_else(|| panic!("{beginning:?} was not logged: {}", process.printed())).to_owned()
}

#[tokio::test]
async fn gateways_and_nodes_share_one_conversation_and_a_rolling_stop_loses_nothing() {
    let mut cluster = Cluster::start().await;
    let (done, subjects) = cluster.command(&["migrate"]);
    assert!(done && subjects.contains("created, version "), "{subjects}");
    cluster.token = subjects.lines().find(|line| line.starts_with("folio_")).expect("the token is printed").to_owned();
    let (done, again) = cluster.command(&["migrate"]);
    assert!(done && again.contains("up to date") && !again.contains("admin token"), "{again}");

    let nodes = [cluster.node(), cluster.node()];
    let gateways = [cluster.gateway(), cluster.gateway()];
    assert!(nodes.iter().chain(&gateways).all(|process| !process.printed().contains("admin token")));
    cluster.until("up", 2).await;
    let (one, other) = (cluster.client(&gateways[0]).await, cluster.client(&gateways[1]).await);

    // The gateway receives the document, and a node reads it.
    let document = one.upload("invoice.txt", b"Invoice Number: A-17\nTotal: 957.00 EUR\n").await;
    let waiting = one.chat(&document, "tag").await.pause().await;
    assert_eq!(other.turn(&waiting.turn_id).await.status(), folio_proto::v1::TurnStatus::AwaitingApproval);
    let answer = other.approve_all(&waiting).await;
    assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
    assert_eq!(one.tag_names().await, ["approved"]);

    // Running turns of a draining node end there; the next message is routed to another node.
    let mut running = other.chat(&document, "held").await;
    running.until("turn_started").await;
    let thread = running.thread();
    cluster.sim.until_held().await;
    let waited_from = std::time::Instant::now();
    let owner = folio_testkit::wait_for("a node that runs the turn", LIMIT, || async {
        let nodes = cluster.status()["nodes"].as_array().unwrap().clone();
        // An older heartbeat may report the turn before.
        let fresh = |node: &Value| {
            u128::from(node["silent_milliseconds"].as_u64().unwrap()) < waited_from.elapsed().as_millis()
        };
        if !nodes.iter().all(fresh) {
            return None;
        }
        nodes.into_iter().find(|node| node["turns_running"] == 1)
    })
    .await;
    let [first, second] = nodes;
    let (stopped, stays) =
        if owner["address"] == logged(&second, "node on ").as_str() { (second, first) } else { (first, second) };
    stopped.ask_to_stop();
    cluster.until("draining", 1).await;
    cluster.sim.open("last").await;
    running.completed().await;
    assert!(stopped.ended(), "the node ends in order");
    cluster.until("up", 1).await;
    one.say(&thread, "tag").await.pause().await;

    for gateway in gateways {
        assert!(gateway.stop().await, "the gateway ends in order");
    }
    assert!(stays.stop().await, "the node ends in order");
    cluster.until("up", 0).await;
}

#[tokio::test]
async fn every_role_serves_probes_and_metrics_and_a_lone_gateway_reports_that_no_node_is_available() {
    let mut cluster = Cluster::start().await;
    // Without `migrate`, the first process creates the organization, and only one token is stored.
    let gateway = cluster.gateway();
    cluster.token = gateway.printed().lines().find(|line| line.starts_with("folio_")).expect("a token").to_owned();
    let client = cluster.client(&gateway).await;
    let document = client.try_upload("a.txt", b"Total: 5").await.expect("an upload needs no node");
    let Err(refused) = client.send(ask(&document.document_id, "tag")).await else {
        panic!("the chat ran without a node")
    };
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused}");

    let node = cluster.node();
    assert!(!node.printed().contains("admin token"));
    cluster.until("up", 1).await;
    for (process, figure) in [(&gateway, "folio_nodes_up 1"), (&node, "folio_conversations 0")] {
        let health = format!("http://{}", logged(process, "health on "));
        let what = format!("{figure} of {health}");
        let found = async || {
            let page = reqwest::get(format!("{health}/metrics")).await.ok()?.text().await.ok()?;
            page.lines().any(|line| line == figure).then_some(())
        };
        folio_testkit::wait_for(&what, LIMIT, found).await;
        let (done, subjects) = answers(&cluster, &health);
        assert!(done, "{subjects}");
    }
    let own = format!("http://{}", logged(&node, "node on "));
    let (done, subjects) = answers(&cluster, &own);
    assert!(done && subjects.contains("SERVING"), "health on the node's own port: {subjects}");

    let (done, subjects) = cluster.command(&["migrate", "--admin-token"]);
    assert!(done, "{subjects}");
    cluster.token = subjects.lines().find(|line| line.starts_with("folio_")).expect("a further token").to_owned();
    let client = cluster.client(&gateway).await;
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
