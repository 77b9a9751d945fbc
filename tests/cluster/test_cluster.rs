//! The clusters that the tests share.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use folio_history::thread::{Phase, ThreadHeader};
use folio_proto::v1;
use folio_storage::Stores;
use folio_test_servers::Redis;
use folio_testkit::proxy::Mode;
use folio_tests::faults::checker::{Invariant, Violation, check};
use folio_tests::faults::log::{ClientEvent, Decisions, Log};
use folio_tests::faults::settle::{TimeLimits, gather};
use folio_tests::faults::tables::Tables;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::{Client, Events, approved, ask, decide};
use folio_tests::harness::cluster::{Cluster, HeartbeatTimes, Member, Setup};
use folio_tests::harness::settings::INVOICE;
use folio_tests::harness::tenant::Tenant;
use futures::FutureExt as _;
use tokio::runtime::Runtime;
use tonic::Status;

/// The runtime of all tests. Its proxies and connections live as long as the process.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// The shared clusters. Each exists while tests use it or wait for it. Most tests wait for a node to be declared dead, so
/// two of them run at once.
static CLUSTERS: Mutex<[Weak<tokio::sync::Mutex<TestCluster>>; 2]> = Mutex::new([Weak::new(), Weak::new()]);

/// Silence after which a node counts as dead.
pub(crate) const DEAD_AFTER: Duration = HeartbeatTimes::QUICK.dead_after;
/// Time until another node has taken over the turns of a dead one.
pub(crate) const TAKEN_OVER: Duration = DEAD_AFTER.saturating_add(Duration::from_secs(1));
/// Time that a busy machine may add to a bound. Two clusters of five processes, Redis and the CQL server share the cores
/// of CI with further tests, so a process may not run for seconds; the aim of 6 s (with the default heartbeats) would
/// measure that load. The sum still detects a wait for a time limit of the stores or for a second heartbeat time.
/// `cargo xtask bench cluster` measures the time itself, with approvals and with the next chat.
pub(crate) const BUSY_MARGIN: Duration = Duration::from_secs(8);

/// Time limit for all turns and jobs to end after a test. Longer than the time after which the checker counts the row of an ended
/// turn as stuck.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);

/// An embedding model, which organizations may choose.
pub(crate) const EMBEDDING_MODEL: &str = "vectors";

/// Encrypts the secrets of tenants.
const MASTER_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Lines per process that are printed when a test fails.
const LINES_PRINTED: usize = 15;

/// A shared cluster with its stores, and the document and log of the current test.
pub(crate) struct TestCluster {
    pub(crate) cluster: Cluster,
    pub(crate) redis: Redis,
    pub(crate) tables: Tables,
    pub(crate) log: Log,
    pub(crate) document: String,
}

/// Runs a test on the least used cluster, with this script for the models.
pub(crate) fn on_cluster(script: &str, run: impl AsyncFnOnce(&mut TestCluster)) {
    let shared = {
        let mut clusters = CLUSTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let least_used = clusters.iter_mut().min_by_key(|cluster| cluster.strong_count()).expect("a cluster");
        least_used.upgrade().unwrap_or_else(|| {
            let started = Arc::new(tokio::sync::Mutex::new(RUNTIME.block_on(TestCluster::start())));
            *least_used = Arc::downgrade(&started);
            started
        })
    };
    RUNTIME.block_on(async {
        let mut test = shared.lock().await;
        test.prepare(script).await;
        let result = AssertUnwindSafe(run(&mut test)).catch_unwind().await;
        if let Err(panic) = result {
            test.print_logs();
            drop(test);
            resume_unwind(panic);
        }
    });
    // The last test ends the processes outside of the runtime.
    drop(shared);
}

impl TestCluster {
    async fn start() -> Self {
        let (redis, cql) = tokio::task::spawn_blocking(|| (Redis::start(), folio_test_servers::cql())).await.unwrap();
        let (redis, cql) = (redis.expect("Redis starts"), cql.expect("a CQL server"));
        let setup =
            Setup { heartbeat_times: HeartbeatTimes::QUICK, ..Setup::new("rules: []", redis.port(), cql.clone()) };
        let setup =
            setup.with("FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS", 5).with("FOLIO_CONVERSATION__STORE_TIMEOUT_SECONDS", 4);
        // The receivers of webhooks listen on this machine.
        let setup = setup
            .with("FOLIO_PROVIDERS__ALLOWED_NETWORKS", "[\"127.0.0.1\"]")
            .with("FOLIO_MODELS__PROVIDERS__SIM__MODELS__VECTORS__KIND", "embedding")
            .with("FOLIO_SECRETS__MASTER_KEYS", format!("[\"{MASTER_KEY}\"]"));
        let cluster = setup.start().await;
        let tables = Tables::open(&cql, &cluster.keyspace).await.expect("the tables are read");
        Self { cluster, redis, tables, log: Log::default(), document: String::new() }
    }

    /// Restores all processes and connections after the previous test.
    async fn prepare(&mut self, script: &str) {
        if self.redis.command("PING").is_err() {
            let _ = self.redis.resume();
            self.redis.run().expect("Redis starts again");
        }
        for member in self.cluster.nodes.iter_mut().chain(&mut self.cluster.gateways) {
            for proxy in [&member.listener_proxy, &member.redis, &member.cql] {
                proxy.set(Mode::Pass);
            }
            if member.needs_restart() {
                member.kill();
            }
        }
        self.cluster.restore().await;
        self.delete_open_threads().await;
        self.delete_open_jobs().await;
        self.cluster.sim.reset().await;
        self.cluster.sim.set_script(script).await;
        self.log = Log::default();
        self.cluster.tenants = vec![Tenant::create(self.cluster.stores(), "alpha").await];
        // A gateway may refuse calls until it reaches the stores again.
        let client = self.client(0).await;
        let upload = || async { client.try_upload("invoice.txt", INVOICE.as_bytes()).await.ok() };
        self.document = folio_testkit::wait_for("an accepted upload", LIMIT, upload).await.document_id;
        client.wait_for_text(&self.document).await;
    }

    /// Deletes threads with open turns of earlier tests, so that nodes do not take them over during this test.
    async fn delete_open_threads(&self) {
        for thread in self.tables.threads().await.expect("the tables are read") {
            if thread.header.open_turn.is_some() {
                let deleted = self.stores().threads.delete(&thread.org, &thread.id, None).await;
                deleted.expect("the thread is removed");
            }
        }
    }

    /// Deletes open jobs of earlier tests, so that nodes do not run them during this test.
    async fn delete_open_jobs(&self) {
        for job in self.tables.job_headers().await.expect("the tables are read") {
            if !job.is_ended() {
                self.stores().jobs.delete(job.org(), &job.id).await.expect("the job is removed");
            }
        }
    }

    /// Prints the last lines of every process for a failed test.
    fn print_logs(&self) {
        for member in self.cluster.gateways.iter().chain(&self.cluster.nodes) {
            // Repeated lines about an unavailable store are omitted.
            let errors = member.errors();
            let lines = errors.lines().filter(|line| !line.contains("membership: ") && !line.contains("::redis::"));
            let lines: Vec<&str> = lines.collect();
            let last = lines.get(lines.len().saturating_sub(LINES_PRINTED)..).unwrap_or_default().join("\n");
            eprintln!("--- {:?} {} ---\n{last}", member.role, member.number);
        }
    }

    pub(crate) async fn client(&self, gateway: usize) -> Client {
        self.cluster.client(gateway).await
    }

    /// Returns the number of the node that owns the thread of a turn.
    pub(crate) async fn owner(&self, turn: &str) -> usize {
        self.cluster.owner(thread_of(turn)).await
    }

    pub(crate) fn stores(&self) -> &Stores {
        self.cluster.stores()
    }

    pub(crate) fn node(&mut self, number: usize) -> &mut Member {
        &mut self.cluster.nodes[number]
    }

    /// Stops all nodes and starts one with these environment variables, so that it owns every new thread.
    pub(crate) async fn run_single_node(&mut self, number: usize, variables: &[(&str, &str)]) {
        for node in &mut self.cluster.nodes {
            node.kill();
        }
        self.node(number).start(variables).await;
    }

    /// Chats at the only running node until the pause, and then starts the other nodes with these environment
    /// variables.
    pub(crate) async fn paused_at(
        &mut self,
        number: usize,
        text: &str,
        own: &[(&str, &str)],
        others: &[(&str, &str)],
    ) -> v1::AwaitingApproval {
        self.run_single_node(number, own).await;
        let waiting = self.chat(0, text).await.pause().await;
        self.start_others(others).await;
        waiting
    }

    pub(crate) async fn start_others(&mut self, variables: &[(&str, &str)]) {
        let down = self.cluster.nodes.iter_mut().filter_map(|node| (!node.is_up()).then_some(node));
        futures::future::join_all(down.map(|node| node.start(variables))).await;
    }

    /// Chats about the test's document.
    pub(crate) async fn chat(&self, gateway: usize, text: &str) -> Events {
        let client = self.client(gateway).await;
        folio_testkit::wait_for("an accepted chat", LIMIT, || async {
            client.send(ask(&self.document, text)).await.ok()
        })
        .await
    }

    /// Sends decisions once and logs them.
    pub(crate) async fn approve(
        &self,
        gateway: usize,
        request: &v1::ApproveRequest,
    ) -> Result<v1::ApproveResponse, Status> {
        let client = self.client(gateway).await;
        approve(&client, &self.log, &self.cluster.tenants[0], request).await
    }

    /// Sends decisions until they are accepted.
    pub(crate) async fn approve_until_accepted(
        &self,
        gateway: usize,
        request: &v1::ApproveRequest,
    ) -> v1::ApproveResponse {
        folio_testkit::wait_for("an answered approval", LIMIT, || async { self.approve(gateway, request).await.ok() })
            .await
    }

    /// Sends decisions until they are accepted or permanently refused.
    pub(crate) async fn approve_until_answered(
        &self,
        gateway: usize,
        request: &v1::ApproveRequest,
    ) -> Result<v1::ApproveResponse, Status> {
        folio_testkit::wait_for("an answered approval", LIMIT, || async {
            let answer = self.approve(gateway, request).await;
            let is_unavailable = answer.as_ref().is_err_and(|status| status.code() == tonic::Code::Unavailable);
            (!is_unavailable).then_some(answer)
        })
        .await
    }

    /// Sends decisions until a node accepts them, and disconnects at an event that precedes the answer.
    pub(crate) async fn approve_until(&self, request: &v1::ApproveRequest, event: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = event => {}
            answer = self.approve_until_answered(0, request) => panic!("{answer:?}"),
        }
    }

    /// Sends decisions to a node that stops at a failpoint, and disconnects.
    pub(crate) async fn approve_until_stopped(&self, request: &v1::ApproveRequest, node: usize) {
        self.approve_until(request, self.cluster.nodes[node].wait_until_stopped()).await;
    }

    /// Sends decisions to a node that dies at a failpoint, and disconnects.
    pub(crate) async fn approve_until_dead(&mut self, request: &v1::ApproveRequest, node: usize) {
        let mut member = self.cluster.nodes.remove(node);
        tokio::select! {
            biased;
            () = member.wait_until_dead() => {}
            answer = self.approve_until_accepted(0, request) => panic!("{answer:?}"),
        }
        self.cluster.nodes.insert(node, member);
    }

    /// Chats with a node until it dies at a failpoint.
    pub(crate) async fn chat_until_dead(&mut self, request: &v1::ChatRequest, node: usize) {
        let client = self.client(0).await;
        let chat = || async {
            if let Ok(events) = client.send(request.clone()).await {
                // The stream ends with its node.
                let _ = events.drain().await;
            }
        };
        self.repeat_until_dead(node, chat).await;
    }

    /// Cancels a turn until its node dies at a failpoint.
    pub(crate) async fn cancel_until_dead(&mut self, turn: &str, node: usize) {
        let client = self.client(0).await;
        let cancel = || async {
            let _ = client.cancel(turn).await;
        };
        self.repeat_until_dead(node, cancel).await;
    }

    /// Repeats a request until a node dies at a failpoint. A node that has just started may refuse the first requests.
    async fn repeat_until_dead<F: Future<Output = ()>>(&mut self, node: usize, request: impl Fn() -> F) {
        let mut member = self.cluster.nodes.remove(node);
        let requests = folio_testkit::wait_for("a dead node", 2 * LIMIT, || async {
            request().await;
            None::<()>
        });
        tokio::select! {
            () = requests => {}
            () = member.wait_until_dead() => {}
        }
        self.cluster.nodes.insert(node, member);
    }

    /// Creates a schema with one field, outside turns.
    pub(crate) async fn schema(&self, field: &str) -> v1::Schema {
        let request = v1::CreateSchemaRequest {
            schema: Some(v1::Schema {
                name: field.to_owned(),
                response_format_json: format_of(field),
                ..Default::default()
            }),
            ..Default::default()
        };
        let created = self.client(0).await.schemas.create_schema(request).await.expect("the schema is created");
        created.into_inner().schema.expect("a schema")
    }

    /// Creates a prompt with these tags and a schema of one field, outside turns.
    pub(crate) async fn prompt(&self, field: &str, tag_ids: Vec<String>) -> v1::Prompt {
        let prompt = v1::Prompt {
            name: field.to_owned(),
            content: format!("Read the {field}."),
            schema_revid: self.schema(field).await.schema_revid,
            tag_ids,
            ..Default::default()
        };
        let request = v1::CreatePromptRequest { prompt: Some(prompt), ..Default::default() };
        let created = self.client(0).await.prompts.create_prompt(request).await.expect("the prompt is created");
        created.into_inner().prompt.expect("a prompt")
    }

    /// Creates another revision of the schema, outside turns.
    pub(crate) async fn revise(&self, schema: &v1::Schema, field: &str) {
        let request = v1::UpdateSchemaRequest {
            schema: Some(v1::Schema {
                schema_id: schema.schema_id.clone(),
                response_format_json: format_of(field),
                ..Default::default()
            }),
            ..Default::default()
        };
        self.client(0).await.schemas.update_schema(request).await.expect("the schema is changed");
    }

    /// Returns a job as soon as it has ended.
    pub(crate) async fn ended_job(&self, job: &str) -> v1::Job {
        let client = self.client(1).await;
        folio_testkit::wait_for("the end of the job", 3 * LIMIT, || async {
            let request = v1::GetJobRequest { job_id: job.to_owned() };
            let found = client.jobs.clone().get_job(request).await.ok()?;
            found.into_inner().job.filter(|job| job.end_time.is_some())
        })
        .await
    }

    /// Returns a turn that no node runs, as soon as a node returns it.
    pub(crate) async fn turn(&self, turn: &str) -> v1::Turn {
        let client = self.client(1).await;
        let found =
            || async { client.try_turn(turn).await.ok().filter(|turn| turn.status() != v1::TurnStatus::Running) };
        folio_testkit::wait_for("a turn that does not run", LIMIT, found).await
    }

    /// Resumes a failed turn, as soon as a node accepts that.
    pub(crate) async fn resume(&self, turn: &str) {
        self.begin_to_resume(turn).await.completed().await;
    }

    /// Resumes a failed turn, as soon as a node accepts that. Returns its events.
    pub(crate) async fn begin_to_resume(&self, turn: &str) -> Events {
        let client = self.client(1).await;
        folio_testkit::wait_for("a resumed turn", LIMIT, || async { client.resume(turn).await.ok() }).await
    }

    /// Returns approvals of all pending calls.
    pub(crate) fn approvals_of(waiting: &v1::AwaitingApproval) -> v1::ApproveRequest {
        decide(waiting, approved)
    }

    pub(crate) async fn header(&self, turn: &str) -> ThreadHeader {
        let thread = thread_of(turn).parse().unwrap();
        let header = self.stores().threads.header(&self.cluster.tenants[0].org, &thread).await;
        header.expect("the store answers").expect("the thread exists")
    }

    /// Waits until no node runs the turn, by the store only. Returns the duration.
    pub(crate) async fn wait_until_idle(&self, turn: &str) -> Duration {
        let begun = Instant::now();
        folio_testkit::wait_for("a turn that is not busy", LIMIT, || async {
            let open = self.header(turn).await.open_turn;
            open.is_none_or(|open| open.phase == Phase::Paused).then_some(())
        })
        .await;
        begun.elapsed()
    }

    /// Returns the violations in this test's organization once no turn is running.
    pub(crate) async fn violations(&self) -> Vec<Violation> {
        let limits = TimeLimits { stuck: TAKEN_OVER + BUSY_MARGIN, total: SETTLED_WITHIN };
        let org = self.cluster.tenants[0].org.clone();
        let evidence = gather(&self.cluster, &self.tables, &self.log, limits).await.expect("the tables are read");
        check(&evidence.only(&org))
    }

    /// Asserts that there are no violations.
    pub(crate) async fn assert_clean(&self) {
        let found = self.violations().await;
        if !found.is_empty() {
            self.print_journals().await;
        }
        assert!(found.is_empty(), "{}", found.iter().map(|one| format!("\n{one}")).collect::<String>());
    }

    /// Prints the journals of this test's organization.
    pub(crate) async fn print_journals(&self) {
        let threads = self.tables.threads().await.expect("the tables are read");
        for thread in threads.iter().filter(|thread| thread.org == self.cluster.tenants[0].org) {
            println!("{} epoch {} version {} {:?}", thread.id, thread.epoch, thread.version, thread.header.open_turn);
            for (number, entry) in &thread.entries {
                println!("  {number} {}", serde_json::to_string(entry).expect("an entry is JSON"));
            }
        }
    }

    /// Returns true if this invariant is violated. Otherwise prints the violations.
    pub(crate) async fn is_violated(&self, invariant: Invariant) -> bool {
        let found = self.violations().await;
        let is_violated = found.iter().any(|one| one.invariant == invariant);
        if !is_violated {
            println!("no violation of {invariant:?}, but {found:?}");
            self.print_journals().await;
            self.log.lines().iter().for_each(|line| println!("{:?}", line.event));
        }
        is_violated
    }
}

/// Returns the thread's id in a turn's id.
pub(crate) fn thread_of(turn: &str) -> &str {
    turn.split('.').next().unwrap_or_default()
}

pub(crate) fn assert_completed(answer: &v1::ApproveResponse) {
    assert!(matches!(answer.outcome, Some(v1::approve_response::Outcome::Completed(_))), "{answer:?}");
}

/// Returns a response format with one field.
fn format_of(field: &str) -> String {
    let schema = serde_json::json!({
        "type": "object", "properties": {field: {"type": "number"}}, "required": [field], "additionalProperties": false,
    });
    serde_json::json!({"type": "json_schema", "json_schema": {"name": "bill", "strict": true, "schema": schema}})
        .to_string()
}

/// Sends decisions once and logs them.
pub(crate) async fn approve(
    client: &Client,
    log: &Log,
    tenant: &Tenant,
    request: &v1::ApproveRequest,
) -> Result<v1::ApproveResponse, Status> {
    let decisions = Decisions::of(request);
    log.add(&tenant.org, ClientEvent::Deciding(decisions.clone()));
    let answer = client.approve(request.clone()).await;
    let event = match &answer {
        Ok(answer) => ClientEvent::Answered(decisions, Box::new(answer.clone())),
        Err(status) => ClientEvent::Refused(decisions, folio_proto::status::to_error(status).reason),
    };
    log.add(&tenant.org, event);
    answer
}
