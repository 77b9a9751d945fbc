//! Effect of a flooding tenant on a quiet one: latency of the quiet tenant's model calls through the real client, alone
//! and concurrently with a tenant that always requests more permits than there are, at equal weights. [`watchers`]
//! measures calls that need no model, and [`cluster::fairness`] measures turns in a cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use folio_llm::{ModelRequest, Models, OpenAiModels, Options};
use folio_types::message::Message;
use folio_types::{OrgId, Secret, System};
use llm_sim::{Latency, LlmSim, Script};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::together;
use crate::cluster;
use crate::format::{Aims, Percentiles};
use crate::watchers;

/// Number of measured calls and turns of the quiet tenant. The standard error of their 99th percentile is 7 %; with 200 it
/// would be 13 %.
pub(crate) const CALLS: usize = 800;
/// Concurrent calls of the quiet tenant.
const QUIET: usize = 4;
/// Active and waiting calls of the flooding tenant, as a multiple of the permits.
const FLOOD: usize = 4;
/// Median latency of the model. The 99th percentile is 3.2 times as long.
const MEDIAN_MS: f64 = 200.0;
const SIGMA: f64 = 0.5;
/// Maximum increase of the 99th percentile, in percent.
pub(crate) const AIM: f64 = 10.0;

/// Measures this number of calls of the quiet tenant alone, during the flood, and as part of it.
pub(crate) async fn measure(calls: usize) -> Result<()> {
    let mut aims = Aims::default();
    let watchers = watchers::measure(calls, &mut aims).await?;
    let sim = slow_model(MEDIAN_MS).await?;
    let mut options = Options::openai(Secret::new("bench"), Some(&sim.url()), Some("scripted"));
    let mut permits = 0;
    for provider in options.providers.values_mut() {
        permits = provider.max_concurrent_calls;
        // The queue is long enough that no call is refused; only the order is measured.
        provider.max_waiting_calls = 2 * FLOOD * permits;
    }
    let models = OpenAiModels::new(options, Arc::new(System))?;
    let (quiet, loud) = (OrgId::derive(&["quiet"]), OrgId::derive(&["flood"]));
    let alone = times(&models, &quiet, calls).await?;

    let mut flood = JoinSet::new();
    for _ in 0..FLOOD * permits {
        let (models, loud) = (models.clone(), loud.clone());
        flood.spawn(async move { while call(&models, &loud).await.is_ok() {} });
    }
    // The flood is complete when all calls beyond the permits are waiting.
    while models.endpoints().iter().map(|endpoint| endpoint.waiting).sum::<usize>() + permits < FLOOD * permits {
        ensure!(flood.try_join_next().is_none(), "a flooding call failed");
        tokio::task::yield_now().await;
    }
    let flooded = times(&models, &quiet, calls).await?;
    let within = times(&models, &loud, calls.min(100)).await?;
    flood.shutdown().await;

    let added = added_percent(&alone, &flooded);
    eprintln!("{permits} permits, {} calls of the flood at once, answers of {MEDIAN_MS} ms (median)", FLOOD * permits);
    eprintln!("{:<44}{:>10}{:>10}", "quiet tenant", "p50", "p99");
    for (what, times) in [("alone", &alone), ("during the flood", &flooded), ("in the flood's own queue", &within)] {
        eprintln!("{what:<44}{:>7.0} ms{:>7.0} ms", millis(times.p50), millis(times.p99));
    }
    let missed = aims.check("added to the 99th percentile of model calls", added < AIM);
    eprintln!("added to the 99th percentile: {added:.1} % (aim: under {AIM} %){missed}");
    let in_cluster = cluster::fairness::measure(calls, &mut aims).await?;
    println!(
        "{}",
        json!({
            "permits": permits,
            "calls": calls,
            "alone_p99_ms": millis(alone.p99),
            "flooded_p99_ms": millis(flooded.p99),
            "within_p99_ms": millis(within.p99),
            "added_percent": added,
            "aim_percent": AIM,
            "watchers": watchers,
            "cluster": in_cluster,
            "missed": aims.missed(),
        })
    );
    aims.finish()
}

/// Starts a model whose answers take random times with this median.
pub(crate) async fn slow_model(median_ms: f64) -> Result<LlmSim> {
    let latency = Latency::Lognormal { median_ms, sigma: SIGMA };
    Ok(LlmSim::builder().script(Script::always("yes")).latency(latency).seed(1).start().await?)
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Returns the increase of the 99th percentile in percent.
pub(crate) fn added_percent(alone: &Percentiles, flooded: &Percentiles) -> f64 {
    (millis(flooded.p99) / millis(alone.p99) - 1.0) * 100.0
}

/// Returns the latencies of this number of calls.
async fn times(models: &OpenAiModels, org: &OrgId, calls: usize) -> Result<Percentiles> {
    let callers = (0..QUIET).map(|_| {
        let (models, org) = (models.clone(), org.clone());
        async move {
            let mut taken = Vec::new();
            for _ in 0..calls.div_ceil(QUIET) {
                let begun = Instant::now();
                call(&models, &org).await?;
                taken.push(begun.elapsed());
            }
            anyhow::Ok(taken)
        }
    });
    Ok(Percentiles::of(together(callers).await?.concat()))
}

async fn call(models: &OpenAiModels, org: &OrgId) -> Result<()> {
    let messages = vec![Message::user("the total?".to_owned())];
    let request = ModelRequest::new(org.clone(), "scripted", messages);
    models.complete(request).await?;
    Ok(())
}
