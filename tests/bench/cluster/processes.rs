//! A cluster under measurement: two gateways and several nodes on real stores.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, Redis};
use folio_tests::harness::client::Client;
use folio_tests::harness::process::Process;
use folio_tests::harness::tenant::{self, Tenant};

/// Number of gateways.
pub(crate) const GATEWAYS: usize = 2;

/// The stores that the processes of a cluster share.
pub(crate) struct Stores {
    redis: Redis,
    cql: Cassandra,
    folder: tempfile::TempDir,
}

impl Stores {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { redis: Redis::start()?, cql: Cassandra::start(1)?, folder: tempfile::tempdir()? })
    }
}

pub(crate) struct Cluster {
    pub(crate) gateways: Vec<Process>,
    pub(crate) nodes: Vec<Process>,
    tenant: Tenant,
    folder: PathBuf,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Cluster {
    /// Starts a cluster in a new keyspace.
    pub(crate) async fn start(stores: &Stores, name: &str, model_endpoint: &str, nodes: usize) -> Result<Self> {
        let keyspace = format!("bench_{name}");
        let folder = stores.folder.path().join(name);
        std::fs::create_dir(&folder)?;
        let tenant = Tenant::make(&tenant::open(&stores.cql.addresses(), &keyspace, 1, &folder).await, "bench").await;
        let variables = vec![
            ("OPENAI_API_KEY", "sim".to_owned()),
            ("OPENAI_BASE_URL", format!("{model_endpoint}/v1")),
            ("FOLIO_LOG__FILTER", "error".to_owned()),
            ("FOLIO_CLUSTER__SECRETS", "[\"the secret of a cluster that is only measured\"]".to_owned()),
            ("FOLIO_STORAGE__CQL__KEYSPACE", keyspace.clone()),
            ("FOLIO_STORAGE__CQL__REPLICATION_FACTOR", "1".to_owned()),
            ("FOLIO_STORAGE__REDIS__PREFIX", keyspace),
            ("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "86400".to_owned()),
        ];
        let blobs = folder.to_string_lossy().into_owned();
        let flags = ["--redis", &stores.redis.url(), "--cql", &stores.cql.addresses(), "--blobs", &blobs];
        let flags = flags.map(str::to_owned).to_vec();
        let mut cluster = Self { gateways: Vec::new(), nodes: Vec::new(), tenant, folder, flags, variables };
        for _ in 0..nodes {
            cluster.join();
        }
        for _ in 0..GATEWAYS {
            let gateway = cluster.serve(&["--roles", "gateway", "--listen", "127.0.0.1:0"]);
            cluster.gateways.push(gateway);
        }
        Ok(cluster)
    }

    /// Starts a further node.
    pub(crate) fn join(&mut self) {
        let node = self.serve(&["--roles", "node", "--node-listen", "127.0.0.1:0"]);
        self.nodes.push(node);
    }

    fn serve(&self, role: &[&str]) -> Process {
        let mut arguments = vec!["serve", "--health-listen", "127.0.0.1:0"];
        arguments.extend(role);
        arguments.extend(self.flags.iter().map(String::as_str));
        let variables: Vec<_> = self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Process::start("folio", &self.folder, &arguments, &variables)
    }

    /// Returns a client with its own connection to a gateway, round-robin.
    pub(crate) async fn client(&self, number: usize) -> Client {
        Client::connect(&self.gateways[number % GATEWAYS].url(), Some(&self.tenant.token)).await
    }

    /// Returns the metrics of all processes, summed by name.
    pub(crate) async fn metrics(&self) -> Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        for process in self.gateways.iter().chain(&self.nodes) {
            for (name, value) in metrics(process).await? {
                *all.entry(name).or_default() += value;
            }
        }
        Ok(all)
    }
}

pub(crate) async fn metrics(process: &Process) -> Result<BTreeMap<String, u64>> {
    let address = process.announced("health on ").context("no health port")?;
    let page = reqwest::get(format!("http://{address}/metrics")).await?.text().await?;
    let lines = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}
