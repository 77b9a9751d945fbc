//! Effect of a flooding tenant on the turns of a quiet one in a cluster, with Redis and a CQL server: latency of the quiet
//! tenant's turns alone, and while the other tenant always requests more permits for model calls than there are.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::processes::{Cluster, Stores};
use crate::client::{chat, together, upload};
use crate::fairness::{AIM, added_percent, millis, slow_model};
use crate::format::{Aims, Percentiles};

const NODES: usize = 2;
/// Concurrent model calls of each node. Small, so that the calls and not the CPU of this machine are the bottleneck. A turn
/// of the quiet tenant waits for the end of one call of the other: on average a `PERMITS`-th of a call.
const PERMITS: usize = 8;
/// Median latency of the model. The 99th percentile is 3.2 times as long.
const MEDIAN_MS: f64 = 400.0;
/// Concurrent turns of the flooding tenant, as a multiple of the permits of all nodes.
const FLOOD: usize = 4;
/// Concurrent turns of the quiet tenant.
const QUIET: usize = 4;
/// Numbers of the tenants.
const QUIET_TENANT: usize = 0;
const LOUD_TENANT: usize = 1;

/// Measures this number of turns of the quiet tenant alone and during the flood.
pub(crate) async fn measure(turns: usize, aims: &mut Aims) -> Result<Value> {
    let stores = Stores::start()?;
    let sim = slow_model(MEDIAN_MS).await?;
    let (permits, base_url) = (PERMITS.to_string(), sim.url());
    let variables = [
        ("FOLIO_MODELS__DEFAULT_MODEL", "scripted"),
        ("FOLIO_MODELS__PROVIDERS__SIM__BASE_URL", base_url.as_str()),
        ("FOLIO_MODELS__PROVIDERS__SIM__API_KEY", "sim"),
        ("FOLIO_MODELS__PROVIDERS__SIM__MAX_CONCURRENT_CALLS", &permits),
        ("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__CONTEXT_TOKENS", "65536"),
    ];
    let cluster = Cluster::start_with(&stores, "fairness", NODES, &variables, 2).await?;
    let document = upload(&cluster.client_of(0, LOUD_TENANT).await).await;
    let alone = times(&cluster, turns).await?;

    let mut flood = JoinSet::<Result<()>>::new();
    for number in 0..FLOOD * PERMITS * NODES {
        let (client, document) = (cluster.client_of(number, LOUD_TENANT).await, document.clone());
        flood.spawn(async move {
            let mut thread = String::new();
            loop {
                thread = chat(&client, &document, &thread).await?.thread;
            }
        });
    }
    // The flood is complete when calls wait at each node.
    let waiting = async || {
        let metrics = cluster.metrics().await.ok()?;
        let counts = metrics.iter().filter(|(name, _)| name.starts_with("folio_model_calls_waiting"));
        (counts.map(|(_, count)| *count).sum::<u64>() > (PERMITS * NODES) as u64).then_some(())
    };
    folio_testkit::wait_for("waiting model calls", Duration::from_secs(60), waiting).await;
    let flooded = times(&cluster, turns).await?;
    if let Some(ended) = flood.try_join_next() {
        ended??;
    }
    flood.shutdown().await;

    let added = added_percent(&alone, &flooded);
    let title = format!("turn of a quiet tenant, {NODES} nodes with {PERMITS} permits each");
    eprintln!("\n{title:<60}{:>10}{:>10}", "p50", "p99");
    for (what, times) in [("alone", &alone), ("while another tenant floods the model", &flooded)] {
        eprintln!("{what:<60}{:>7.0} ms{:>7.0} ms", millis(times.p50), millis(times.p99));
    }
    let missed = aims.check("added to the 99th percentile of turns in a cluster", added < AIM);
    eprintln!("added to the 99th percentile: {added:.1} % (aim: under {AIM} %){missed}");
    Ok(json!({
        "nodes": NODES,
        "permits": PERMITS * NODES,
        "turns": turns,
        "alone_p99_ms": millis(alone.p99),
        "flooded_p99_ms": millis(flooded.p99),
        "added_percent": added,
    }))
}

/// Returns the latencies of this number of turns of the quiet tenant.
async fn times(cluster: &Cluster, turns: usize) -> Result<Percentiles> {
    let document = upload(&cluster.client_of(0, QUIET_TENANT).await).await;
    let mut tasks = Vec::new();
    for number in 0..QUIET {
        let (client, document) = (cluster.client_of(number, QUIET_TENANT).await, document.clone());
        tasks.push(async move {
            let (mut taken, mut thread) = (Vec::new(), chat(&client, &document, "").await?.thread);
            for _ in 0..turns.div_ceil(QUIET) {
                let begun = Instant::now();
                thread = chat(&client, &document, &thread).await?.thread;
                taken.push(begun.elapsed());
            }
            anyhow::Ok(taken)
        });
    }
    Ok(Percentiles::of(together(tasks).await?.concat()))
}
