//! A cluster under measurement: two gateways and some nodes on real stores, all of it started and ended here.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, Redis};

use crate::process::{Process, command};

/// Gateways of a cluster.
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

/// Gateways and nodes.
pub(crate) struct Cluster {
    pub(crate) gateways: Vec<Process>,
    pub(crate) nodes: Vec<Process>,
    /// The admin's token.
    pub(crate) token: String,
    flags: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl Cluster {
    /// Starts one in a keyspace of its own.
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

    /// Makes the keyspace; gives the admin's token.
    fn migrate(&self, places: &[String]) -> Result<String> {
        let mut arguments = vec!["migrate"];
        arguments.extend(places.iter().map(String::as_str));
        let output = command("folio", &arguments, &self.variables())?.output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        anyhow::ensure!(output.status.success(), "folio migrate failed: {}", String::from_utf8_lossy(&output.stderr));
        let token = said.lines().find(|line| line.starts_with("folio_"));
        token.map(str::to_owned).with_context(|| format!("folio migrate told no token: {said}"))
    }

    /// One more node.
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

    /// The address of one gateway after another.
    pub(crate) fn gateway(&self, number: usize) -> &str {
        self.gateways.get(number % GATEWAYS).map_or("", |gateway| &gateway.address)
    }

    /// Figures of all processes, summed by name.
    pub(crate) async fn figures(&self) -> Result<BTreeMap<String, u64>> {
        let mut all = BTreeMap::new();
        for process in self.gateways.iter().chain(&self.nodes) {
            for (name, value) in figures(process).await? {
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

/// The figures that a process tells.
pub(crate) async fn figures(process: &Process) -> Result<BTreeMap<String, u64>> {
    let page = reqwest::get(format!("http://{}/metrics", process.said("health on ")?)).await?.text().await?;
    let lines = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}
