//! A cluster under measurement: two gateways and several nodes on real stores.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, Redis};

use crate::process::{Process, command};

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

/// A running cluster.
pub(crate) struct Cluster {
    pub(crate) gateways: Vec<Process>,
    pub(crate) nodes: Vec<Process>,
    /// Token of the administrator.
    pub(crate) token: String,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Cluster {
    /// Starts a cluster in a new keyspace.
    pub(crate) fn start(stores: &Stores, name: &str, model_endpoint: &str, nodes: usize) -> Result<Self> {
        let variables = vec![
            ("OPENAI_API_KEY", "sim".to_owned()),
            ("OPENAI_BASE_URL", format!("{model_endpoint}/v1")),
            ("FOLIO_LOG__FILTER", "error".to_owned()),
            ("FOLIO_CLUSTER__SECRETS", "[\"the secret of a cluster that is only measured\"]".to_owned()),
            ("FOLIO_STORAGE__CQL__KEYSPACE", format!("bench_{name}")),
            ("FOLIO_STORAGE__CQL__REPLICATION_FACTOR", "1".to_owned()),
            ("FOLIO_STORAGE__REDIS__PREFIX", format!("bench-{name}")),
            ("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "86400".to_owned()),
        ];
        let places = ["--redis".to_owned(), stores.redis.url(), "--cql".to_owned(), stores.cql.addresses()];
        let blobs = folder(stores.folder.path(), name)?;
        let mut cluster =
            Self { gateways: Vec::new(), nodes: Vec::new(), token: String::new(), flags: Vec::new(), variables };
        cluster.token = cluster.migrate(&places)?;
        cluster.flags = places.into_iter().chain(["--blobs".to_owned(), blobs]).collect();
        for _ in 0..nodes {
            cluster.join()?;
        }
        for _ in 0..GATEWAYS {
            let gateway = cluster.serve(&["--roles", "gateway", "--listen", "127.0.0.1:0"])?;
            cluster.gateways.push(gateway);
        }
        Ok(cluster)
    }

    /// Creates the keyspace. Returns the administrator's token.
    fn migrate(&self, places: &[String]) -> Result<String> {
        let mut arguments = vec!["migrate"];
        arguments.extend(places.iter().map(String::as_str));
        let output = command("folio", &arguments, &self.variables())?.output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(output.status.success(), "folio migrate failed: {}", String::from_utf8_lossy(&output.stderr));
        let token = printed.lines().find(|line| line.starts_with("folio_"));
        token.map(str::to_owned).with_context(|| format!("folio migrate printed no token: {printed}"))
    }

    /// Starts a further node.
    pub(crate) fn join(&mut self) -> Result<()> {
        let node = self.serve(&["--roles", "node", "--node-listen", "127.0.0.1:0"])?;
        self.nodes.push(node);
        Ok(())
    }

    fn serve(&self, role: &[&str]) -> Result<Process> {
        let mut arguments = vec!["serve", "--health-listen", "127.0.0.1:0"];
        arguments.extend(role);
        arguments.extend(self.flags.iter().map(String::as_str));
        Process::start("folio", &arguments, &self.variables())
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Returns the address of a gateway, round-robin.
    pub(crate) fn gateway(&self, number: usize) -> &str {
        self.gateways.get(number % GATEWAYS).map_or("", |gateway| &gateway.address)
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

fn folder(below: &Path, name: &str) -> Result<String> {
    let folder = below.join(name);
    std::fs::create_dir(&folder)?;
    Ok(folder.to_string_lossy().into_owned())
}

/// Returns the metrics of a process.
pub(crate) async fn metrics(process: &Process) -> Result<BTreeMap<String, u64>> {
    let page = reqwest::get(format!("http://{}/metrics", process.printed("health on ")?)).await?.text().await?;
    let lines = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}
