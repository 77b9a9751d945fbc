//! A cluster of several processes: gateways and nodes on shared stores, with a proxy before each connection.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use folio_storage::Stores;
use folio_testkit::proxy::Proxy;
use folio_types::{Incarnation, ThreadId};
use tempfile::TempDir;

use super::client::Client;
use super::process::{self, Process};
use super::settings;
use super::sim::Sim;
use super::tenant::{self, Tenant};
use super::{LIMIT, within};

/// The program of this build.
const FOLIO: &str = "folio";

/// Environment variable of the image, for runs that measure memory: the allocator requests no huge pages, because the kernel
/// also replaces sparsely used memory by them in the background. The memory of a process would then grow without an allocation.
pub const NO_HUGE_PAGES: (&str, u64) = ("MIMALLOC_ALLOW_THP", 0);

/// Times after which silent nodes are detected.
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatTimes {
    /// Interval between heartbeats.
    pub heartbeat: Duration,
    /// Timeout of a heartbeat.
    pub answer: Duration,
    /// Time without heartbeat after which a node counts as dead.
    pub dead_after: Duration,
}

impl HeartbeatTimes {
    /// Folio's defaults.
    pub const DEFAULT: Self = Self {
        heartbeat: Duration::from_millis(1_500),
        answer: Duration::from_secs(1),
        dead_after: Duration::from_secs(5),
    };
    /// Short times, for tests of other behaviour.
    pub const QUICK: Self = Self {
        heartbeat: Duration::from_millis(500),
        answer: Duration::from_secs(1),
        dead_after: Duration::from_secs(3),
    };
}

#[derive(Debug, Clone)]
pub struct Setup {
    pub script: String,
    pub gateways: usize,
    pub nodes: usize,
    /// Port of Redis on 127.0.0.1.
    pub redis: u16,
    /// CQL servers: `127.0.0.1:PORT`, `127.0.0.2:PORT`, …, separated by commas.
    pub cql: String,
    pub replication_factor: u8,
    pub heartbeat_times: HeartbeatTimes,
    pub variables: Vec<(String, String)>,
    pub markers: Vec<&'static str>,
    /// True if the model endpoint records the last 200,000 requests of a long run, without bodies.
    pub is_long_run: bool,
    /// True if each node keeps its index in a folder of its own, also after `kill -9`. False: in a temporary folder.
    pub keeps_indexes: bool,
}

impl Setup {
    /// Returns a setup of two gateways and three nodes with one tenant.
    pub fn new(script: impl Into<String>, redis: u16, cql: impl Into<String>) -> Self {
        Self {
            script: script.into(),
            gateways: 2,
            nodes: 3,
            redis,
            cql: cql.into(),
            replication_factor: 1,
            heartbeat_times: HeartbeatTimes::DEFAULT,
            variables: Vec::new(),
            markers: vec!["alpha"],
            is_long_run: false,
            keeps_indexes: false,
        }
    }

    #[must_use]
    pub fn with(mut self, variable: &str, value: impl ToString) -> Self {
        self.variables.push((variable.to_owned(), value.to_string()));
        self
    }

    /// Starts a cluster of this build on a new keyspace, with a tenant for each marker.
    pub async fn start(self) -> Cluster {
        let mut cluster = self.prepare().await;
        let Setup { cql, replication_factor, markers, .. } = cluster.setup.clone();
        let stores = tenant::open_stores(&cql, &cluster.keyspace, replication_factor, cluster.folder()).await;
        for marker in markers {
            cluster.tenants.push(Tenant::create(&stores, marker).await);
        }
        cluster.stores = Some(stores);
        cluster.start_processes(FOLIO).await;
        cluster
    }

    /// Starts the model endpoint and chooses a keyspace, which does not exist yet. The cluster has neither tenants nor
    /// processes.
    pub async fn prepare(self) -> Cluster {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let sim = match self.is_long_run {
            true => Sim::start_for_long_run(folder.path(), &self.script).await,
            false => Sim::start(folder.path(), &self.script).await,
        };
        let keyspace = format!("t{:x}", rand::random::<u64>());
        let settings = settings::for_models_at(&sim.base_url());
        std::fs::write(folder.path().join("folio.toml"), settings).expect("the settings are written");
        let (gateways, nodes, tenants) = (Vec::new(), Vec::new(), Vec::new());
        Cluster { sim, gateways, nodes, tenants, stores: None, keyspace, folder, setup: self }
    }
}

/// Starts processes of a cluster: their folder, stores and environment variables.
#[derive(Debug, Clone)]
pub struct Launcher {
    folder: PathBuf,
    /// Name or absolute path of the program.
    program: String,
    /// Flags of the commands with the addresses of Redis and the CQL servers.
    stores: [String; 4],
    variables: Vec<(String, String)>,
}

impl Launcher {
    /// Creates a launcher for processes that share a keyspace. The blobs are in the folder `blobs` below `folder`.
    pub fn new(folder: &Path, redis: &str, cql: &str, keyspace: &str, replication_factor: u8) -> Self {
        std::fs::create_dir_all(folder.join("blobs")).expect("a folder for blobs");
        let launcher = Self {
            folder: folder.to_owned(),
            program: FOLIO.to_owned(),
            stores: ["--redis", redis, "--cql", cql].map(str::to_owned),
            variables: Vec::new(),
        };
        // One organization makes the whole load of a test or a benchmark.
        let limits = ["CONCURRENT_TURNS", "CONCURRENT_MODEL_CALLS", "DOCUMENTS", "STORAGE_BYTES"];
        let launcher =
            limits.iter().fold(launcher, |launcher, limit| launcher.with(&format!("FOLIO_LIMITS__{limit}"), 0));
        launcher
            .with("FOLIO_STORAGE__CQL__KEYSPACE", keyspace)
            .with("FOLIO_STORAGE__CQL__REPLICATION_FACTOR", replication_factor)
            .with("FOLIO_STORAGE__REDIS__PREFIX", keyspace)
            .with("FOLIO_CLUSTER__SECRETS", "[\"a secret of a test, thirty-two bytes or more\"]")
    }

    #[must_use]
    pub fn with(mut self, variable: &str, value: impl ToString) -> Self {
        self.variables.push((variable.to_owned(), value.to_string()));
        self
    }

    /// Sets the program: `folio`, or the absolute path of another version.
    #[must_use]
    pub fn with_program(mut self, program: &str) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Runs a command of `folio` on the stores to its end.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = process::command(process::binary(&self.program), &self.folder, &self.variables());
        command.args(words).args(&self.stores).stdin(Stdio::null()).output().expect("folio starts")
    }

    pub fn gateway(&self) -> Process {
        self.try_serve(&["gateway", "--listen", "127.0.0.1:0"]).expect("the gateway starts")
    }

    pub fn node(&self) -> Process {
        self.try_serve(&["node", "--node-listen", "127.0.0.1:0"]).expect("the node starts")
    }

    /// Starts a process with a role and its flags. The error is the stderr of a process that exited before it listened.
    fn try_serve(&self, role: &[&str]) -> Result<Process, String> {
        let blobs = self.folder.join("blobs").display().to_string();
        let mut arguments = vec!["serve", "--health-listen", "127.0.0.1:0", "--blobs", &blobs];
        arguments.extend(self.stores.iter().map(String::as_str).chain(["--roles"]).chain(role.iter().copied()));
        let variables = self.variables();
        let is_faulty = variables.iter().any(|(name, _)| *name == "FOLIO_FAULT");
        let program = if is_faulty { "folio-faulty" } else { &self.program };
        Process::try_start(program, &self.folder, &arguments, &variables)
    }
}

pub struct Cluster {
    pub sim: Sim,
    pub gateways: Vec<Member>,
    pub nodes: Vec<Member>,
    pub tenants: Vec<Tenant>,
    /// The stores, reached without a proxy. None: this build has not opened the keyspace.
    stores: Option<Stores>,
    pub keyspace: String,
    folder: TempDir,
    pub setup: Setup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves the public API.
    Gateway,
    /// Runs conversations.
    Node,
}

/// A process of the cluster, which may be stopped.
pub struct Member {
    pub role: Role,
    pub number: usize,
    /// Proxy before its listener: the public API of a gateway, or the internal services of a node.
    pub listener_proxy: Proxy,
    /// Proxy before Redis.
    pub redis: Proxy,
    /// Proxy before the CQL servers.
    pub cql: Proxy,
    /// File with the seconds by which the clock of the process is ahead. Default: none.
    pub clock: PathBuf,
    launcher: Launcher,
    process: Option<Process>,
    has_extra_variables: bool,
}

impl Member {
    async fn new(cluster: &Cluster, role: Role, number: usize) -> Self {
        let setup = &cluster.setup;
        let servers: Vec<&str> = setup.cql.split(',').collect();
        let hosts = u8::try_from(servers.len()).expect("a few CQL servers");
        let port = servers[0].rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let cql = Proxy::start_for(hosts, Some(port)).await;
        let redis = Proxy::start_for(1, Some(setup.redis)).await;
        let contact_points: Vec<_> = (1..=hosts).map(|host| format!("127.0.0.{host}:{}", cql.port())).collect();
        let (redis_url, contact_points) = (format!("redis://{}", redis.address()), contact_points.join(","));
        let HeartbeatTimes { heartbeat, answer, dead_after } = setup.heartbeat_times;
        let launcher =
            Launcher::new(cluster.folder(), &redis_url, &contact_points, &cluster.keyspace, setup.replication_factor)
                .with("FOLIO_CLUSTER__HEARTBEAT_SECONDS", heartbeat.as_secs_f64())
                .with("FOLIO_CLUSTER__HEARTBEAT_ANSWER_SECONDS", answer.as_secs_f64())
                .with("FOLIO_CLUSTER__DEAD_AFTER_SECONDS", dead_after.as_secs_f64());
        let clock = cluster.folder().join(format!("clock-{role:?}-{number}"));
        let mut launcher = launcher.with("FOLIO_CLOCK_OFFSET", clock.display());
        if setup.keeps_indexes && role == Role::Node {
            launcher = launcher.with("FOLIO_INDEX__FOLDER", cluster.index_folder(number).display());
        }
        launcher.variables.extend(setup.variables.iter().cloned());
        let listener_proxy = Proxy::start().await;
        Self { role, number, listener_proxy, redis, cql, clock, launcher, process: None, has_extra_variables: false }
    }

    /// Sets the program of the next start: `folio`, or the absolute path of another version.
    pub fn set_program(&mut self, program: &str) {
        program.clone_into(&mut self.launcher.program);
    }

    /// Starts the process with additional environment variables.
    pub async fn start(&mut self, more: &[(&str, &str)]) {
        if let Err(errors) = self.try_start(more).await {
            panic!("{:?} {} ended before it listened:\n{errors}", self.role, self.number);
        }
    }

    /// Like [`Member::start`], but returns the process's stderr if it exits before it listens.
    pub async fn try_start(&mut self, more: &[(&str, &str)]) -> Result<(), String> {
        let (role, address) = (self.role, self.listener_proxy.address());
        let launcher = more.iter().fold(self.launcher.clone(), |launcher, (name, value)| launcher.with(name, value));
        let started = tokio::task::spawn_blocking(move || match role {
            Role::Gateway => launcher.try_serve(&["gateway", "--listen", "127.0.0.1:0"]),
            Role::Node => launcher.try_serve(&["node", "--node-listen", "127.0.0.1:0", "--node-advertise", &address]),
        });
        let process = started.await.expect("the start does not panic")?;
        let port = process.url().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        self.listener_proxy.set_target(port);
        self.process = Some(process);
        self.has_extra_variables = !more.is_empty();
        Ok(())
    }

    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("the process runs")
    }

    pub fn is_up(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| !process.is_dead())
    }

    /// Returns true if the process runs with additional environment variables or is stopped.
    pub fn needs_restart(&self) -> bool {
        self.has_extra_variables || self.process.as_ref().is_some_and(Process::is_stopped)
    }

    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Takes the process, to terminate it elsewhere.
    pub fn take(&mut self) -> Option<Process> {
        self.process.take()
    }

    pub fn errors(&self) -> String {
        self.process.as_ref().map(Process::errors).unwrap_or_default()
    }

    /// Returns the end of the stderr.
    pub fn last_errors(&self) -> String {
        let text = self.errors();
        text.get(text.ceil_char_boundary(text.len().saturating_sub(2_000))..).unwrap_or_default().to_owned()
    }

    /// Waits until the process exits.
    pub async fn wait_until_dead(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        folio_testkit::wait_for("a dead process", LIMIT, || std::future::ready(process.is_dead().then_some(()))).await;
    }

    /// Waits until the process stops itself.
    pub async fn wait_until_stopped(&self) {
        let process = self.process();
        folio_testkit::wait_for("a stopped process", LIMIT, || std::future::ready(process.is_stopped().then_some(())))
            .await;
    }

    /// Returns the incarnations of this process, as it logged them.
    pub fn incarnations(&self) -> Vec<Incarnation> {
        let text = self.errors();
        let started = text.lines().filter(|line| line.contains("node started"));
        started.filter_map(|line| line.get(line.find("inc_")?..)?.get(..36)?.parse().ok()).collect()
    }
}

impl Cluster {
    /// Starts all gateways and nodes with a program: `folio`, or the absolute path of another version.
    pub async fn start_processes(&mut self, program: &str) {
        for number in 0..self.setup.gateways {
            let member = Member::new(self, Role::Gateway, number).await;
            self.gateways.push(member);
        }
        for number in 0..self.setup.nodes {
            let member = Member::new(self, Role::Node, number).await;
            self.nodes.push(member);
        }
        // A gateway that starts before the nodes refuses calls until it reads the list of the nodes again.
        for members in [&mut self.nodes, &mut self.gateways] {
            let starts = members.iter_mut().map(|member| {
                member.set_program(program);
                member.start(&[])
            });
            futures::future::join_all(starts).await;
        }
    }

    /// Returns a launcher of commands, which reach the stores without a proxy.
    pub fn launcher(&self) -> Launcher {
        let Setup { redis, cql, replication_factor, .. } = &self.setup;
        let redis = format!("redis://127.0.0.1:{redis}");
        Launcher::new(self.folder(), &redis, cql, &self.keyspace, *replication_factor)
    }

    /// Returns the stores.
    ///
    /// # Panics
    /// If this build has not opened the keyspace.
    pub fn stores(&self) -> &Stores {
        self.stores.as_ref().expect("the keyspace is open")
    }

    /// Returns a client of a gateway with the token of a tenant.
    pub async fn client_of(&self, gateway: usize, tenant: usize) -> Client {
        let url = format!("http://{}", self.gateways[gateway].listener_proxy.address());
        Client::connect(&url, Some(&self.tenants[tenant].token)).await
    }

    pub async fn client(&self, gateway: usize) -> Client {
        self.client_of(gateway, 0).await
    }

    /// Returns the number of the node that owns a thread, from the thread's header.
    pub async fn owner(&self, thread: &str) -> usize {
        let thread: ThreadId = thread.parse().expect("a thread's id");
        let header = self.stores().threads.header(&self.tenants[0].org, &thread).await.expect("the store answers");
        self.node_of(&header.and_then(|header| header.owner).expect("an owner"))
    }

    /// Returns the number of the node that runs or ran an incarnation.
    pub fn node_of(&self, owner: &Incarnation) -> usize {
        let found = self.nodes.iter().position(|node| node.incarnations().contains(owner));
        found.unwrap_or_else(|| panic!("no node has the incarnation {owner}"))
    }

    /// Returns the common folder of all processes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of the index of a node, if the nodes keep their indexes.
    pub fn index_folder(&self, node: usize) -> PathBuf {
        self.folder().join(format!("index-{node}"))
    }

    /// Restarts every process that is not running.
    pub async fn restore(&mut self) {
        let down =
            self.nodes.iter_mut().chain(&mut self.gateways).filter_map(|member| (!member.is_up()).then_some(member));
        within("the restart", futures::future::join_all(down.map(|member| member.start(&[])))).await;
    }
}
