//! What a flooding tenant costs a quiet one: the quiet one's model calls through the real client to an endpoint with a latency, alone
//! and beside a tenant that always wants more places than there are, at equal weights.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use folio_llm::{ModelRequest, Models, OpenAiModels, Options, Progress};
use folio_types::message::Message;
use folio_types::{OrgId, Secret, System};
use llm_sim::{Latency, LlmSim, Script};
use serde_json::json;
use tokio::task::JoinSet;

use crate::figures::percentile;

/// Calls of the quiet tenant that are measured.
pub(crate) const CALLS: usize = 800;
/// Calls that the quiet tenant has under way at once.
const QUIET: usize = 4;
/// Calls that the flooding tenant has under way or waiting, in those that may be under way.
const FLOOD: usize = 4;
/// Half of the answers come within this time; the 99th percentile is 3.2 times that.
const MEDIAN_MS: f64 = 200.0;
const SIGMA: f64 = 0.5;
/// The aim of what is added, in hundredths.
const AIM: f64 = 10.0;

/// Measures so many calls of the quiet tenant alone, beside the flood, and as a part of it.
pub(crate) async fn measure(calls: usize) -> Result<()> {
    let latency = Latency::Lognormal { median_ms: MEDIAN_MS, sigma: SIGMA };
    let sim = LlmSim::builder().script(Script::always("yes")).latency(latency).seed(1).start().await?;
    let mut options = Options::openai(Secret::new("bench"), Some(&sim.url()), Some("scripted"));
    let mut places = 0;
    for provider in options.providers.values_mut() {
        places = provider.max_concurrent_calls;
        // Nobody is put out: what is measured is the order.
        provider.max_waiting_calls = 2 * FLOOD * places;
    }
    let models = OpenAiModels::new(options, Arc::new(System))?;
    let (quiet, loud) = (OrgId::derive(&["quiet"]), OrgId::derive(&["flood"]));
    let alone = times(&models, &quiet, calls).await?;

    let mut flood = JoinSet::new();
    for _ in 0..FLOOD * places {
        let (models, loud) = (models.clone(), loud.clone());
        flood.spawn(async move { while call(&models, &loud).await.is_ok() {} });
    }
    // The flood stands once as many wait as it has beyond the places.
    while models.endpoints().iter().map(|endpoint| endpoint.waiting).sum::<usize>() + places < FLOOD * places {
        ensure!(flood.try_join_next().is_none(), "a call of the flood failed");
        tokio::task::yield_now().await;
    }
    let beside = times(&models, &quiet, calls).await?;
    let within = times(&models, &loud, calls.min(100)).await?;
    flood.shutdown().await;

    let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    let p99 = |sorted: &[Duration]| millis(percentile(sorted, 0.99));
    let added = (p99(&beside) / p99(&alone) - 1.0) * 100.0;
    eprintln!("{places} places, {} calls of the flood at once, answers of {MEDIAN_MS} ms (median)", FLOOD * places);
    eprintln!("{:<44}{:>10}{:>10}", "quiet tenant", "p50", "p99");
    for (what, sorted) in [("alone", &alone), ("beside the flood", &beside), ("in the flood's own queue", &within)] {
        eprintln!("{what:<44}{:>7.0} ms{:>7.0} ms", millis(percentile(sorted, 0.5)), p99(sorted));
    }
    eprintln!("added to the 99th percentile: {added:.1} % (aim: under {AIM} %)");
    println!(
        "{}",
        json!({
            "places": places,
            "calls": calls,
            "alone_p99_ms": p99(&alone),
            "beside_p99_ms": p99(&beside),
            "within_p99_ms": p99(&within),
            "added_percent": added,
            "aim_percent": AIM,
        })
    );
    Ok(())
}

/// How long each of so many calls took, sorted.
async fn times(models: &OpenAiModels, org: &OrgId, calls: usize) -> Result<Vec<Duration>> {
    let mut callers = JoinSet::new();
    for _ in 0..QUIET {
        let (models, org) = (models.clone(), org.clone());
        callers.spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..calls.div_ceil(QUIET) {
                let begun = Instant::now();
                call(&models, &org).await?;
                taken.push(begun.elapsed());
            }
            anyhow::Ok(taken)
        });
    }
    let mut taken = Vec::new();
    while let Some(part) = callers.join_next().await {
        taken.extend(part??);
    }
    taken.sort_unstable();
    Ok(taken)
}

async fn call(models: &OpenAiModels, org: &OrgId) -> Result<()> {
    let request = ModelRequest {
        org: org.clone(),
        model: "scripted".to_owned(),
        system: String::new(),
        messages: vec![Message::User { text: "the total?".to_owned() }],
        tools: folio_llm::Tools::default(),
        response_format: None,
        thinking: false,
        max_output_tokens: None,
        progress: Progress::default(),
    };
    models.complete(request).await?;
    Ok(())
}
