//! `folio cluster status`: reads the stores of a cluster and prints a report. It writes only a probe to Redis.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use folio_storage::{ClusterNode, MembershipSnapshot, SharedStores};
use folio_storage_redis::shared_stores;
use folio_types::Error;

use super::report::{Health, Keyspace, Node, Report, State};
use crate::arguments::{SettingsArguments, StoreArguments};
use crate::server::{redis_options, with_setting};
use crate::settings::Settings;

/// Timeout of each store.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    #[command(flatten)]
    pub(crate) stores: StoreArguments,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Prints the report. Fails after the report if a store does not respond or the keyspace requires a newer program.
pub(crate) async fn run(arguments: &Arguments, settings: &Settings) -> Result<()> {
    let storage = &settings.storage;
    let has_stores = !storage.redis.url.is_empty() && !storage.cql.contact_points.is_empty();
    ensure!(has_stores, "status requires the stores of the cluster: --redis URL --cql HOST[:PORT],…");
    let shared = shared_stores(redis_options(settings)).map_err(with_setting("storage.redis.url"))?;
    let (redis, cql) =
        tokio::join!(timed(read_nodes(&shared)), timed(folio_storage_cql::inspect(storage.cql.adapter())));
    let (redis, nodes) = redis;
    let (cql, found) = cql;
    let keyspace = found.map(|found| Keyspace {
        name: storage.cql.keyspace.clone(),
        version: found.version,
        version_of_this_program: found.newest,
        required_version: found.required,
    });
    let report = Report { nodes: nodes.unwrap_or_default(), redis, cql, keyspace };
    let text = if arguments.json { format!("{}\n", serde_json::to_string(&report)?) } else { report.to_string() };
    crate::terminal::write_stdout(&text)?;
    match report.problem() {
        Some(problem) => bail!("{problem}"),
        None => Ok(()),
    }
}

/// Runs a query of a store, and returns the store's health with the result.
async fn timed<T>(query: impl Future<Output = folio_types::Result<T>>) -> (Health, Option<T>) {
    let since = Instant::now();
    let answer = tokio::time::timeout(LIMIT, query).await;
    let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    match answer.unwrap_or_else(|_| Err(Error::internal("no answer in time"))) {
        Ok(answer) => (Health { is_available: true, milliseconds, error: None }, Some(answer)),
        Err(error) => (Health { is_available: false, milliseconds, error: Some(error.to_string()) }, None),
    }
}

/// Reads the nodes: live ones first, then by address.
async fn read_nodes(shared: &SharedStores) -> folio_types::Result<Vec<Node>> {
    shared.health.check().await?;
    let MembershipSnapshot { mut members, .. } = shared.nodes.nodes().await?;
    members.sort_by_key(|member| (member.is_dead, member.node.address.clone(), member.node.started_at));
    let mut nodes = Vec::with_capacity(members.len());
    for ClusterNode { node, silent_for, is_dead } in members {
        let state = match (is_dead, node.draining) {
            (true, _) => State::Dead,
            (false, true) => State::Draining,
            (false, false) => State::Up,
        };
        nodes.push(Node {
            address: node.address,
            incarnation: node.incarnation.to_string(),
            state,
            conversations: node.conversations,
            capacity: node.capacity,
            busy_conversations: node.busy_conversations,
            silent_milliseconds: u64::try_from(silent_for.as_millis()).unwrap_or(u64::MAX),
            started_at: node.started_at.to_string(),
            version: node.version,
        });
    }
    Ok(nodes)
}
