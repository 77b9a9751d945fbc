//! A cluster under measurement: two gateways and several nodes on real stores.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, Redis};
use folio_tests::harness::client::Client;
use folio_tests::harness::cluster::Launcher;
use folio_tests::harness::process::Process;
use folio_tests::harness::tenant::{self, Tenant};

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
    tenants: Vec<Tenant>,
    launcher: Launcher,
}

impl Cluster {
    /// Starts a cluster in a new keyspace, with one tenant.
    pub(crate) async fn start(stores: &Stores, name: &str, model_endpoint: &str, nodes: usize) -> Result<Self> {
        let base_url = format!("{model_endpoint}/v1");
        let variables = [("OPENAI_API_KEY", "sim"), ("OPENAI_BASE_URL", &base_url)];
        Self::start_with(stores, name, nodes, &variables, 1).await
    }

    /// Starts a cluster in a new keyspace, with these environment variables and this number of tenants.
    pub(crate) async fn start_with(
        stores: &Stores,
        name: &str,
        nodes: usize,
        variables: &[(&str, &str)],
        tenants: usize,
    ) -> Result<Self> {
        let (keyspace, folder, cql) =
            (format!("bench_{name}"), stores.folder.path().join(name), stores.cql.addresses());
        let launcher = Launcher::new(&folder, &stores.redis.url(), &cql, &keyspace, 1)
            .with("FOLIO_LOG__FILTER", "error")
            // Each turn makes one model call, also in a long thread.
            .with("FOLIO_CONVERSATION__SUMMARIES", false)
            .with("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", 86_400);
        let launcher = variables.iter().fold(launcher, |launcher, (name, value)| launcher.with(name, value));
        let opened = tenant::open_stores(&cql, &keyspace, 1, &folder).await;
        let mut created = Vec::new();
        for number in 0..tenants {
            created.push(Tenant::create(&opened, &format!("bench {number}")).await);
        }
        let nodes = (0..nodes).map(|_| launcher.node()).collect();
        let gateways = (0..GATEWAYS).map(|_| launcher.gateway()).collect();
        Ok(Self { gateways, nodes, tenants: created, launcher })
    }

    /// Starts a further node.
    pub(crate) fn join(&mut self) {
        self.nodes.push(self.launcher.node());
    }

    /// Returns a client of the first tenant with its own connection to a gateway, round-robin.
    pub(crate) async fn client(&self, number: usize) -> Client {
        self.client_of(number, 0).await
    }

    /// Returns a client of a tenant with its own connection to a gateway, round-robin.
    pub(crate) async fn client_of(&self, number: usize, tenant: usize) -> Client {
        Client::connect(&self.gateways[number % GATEWAYS].url(), Some(&self.tenants[tenant].token)).await
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
    let address = process.printed_after("health on ").context("no health port")?;
    let page = reqwest::get(format!("http://{address}/metrics")).await?.text().await?;
    let lines = page.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
    Ok(lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}
