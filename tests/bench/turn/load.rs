//! Turns per second, CPU time per turn, latency.

use std::time::{Duration, Instant};

use anyhow::Result;
use folio_tests::harness::client::Client;
use folio_tests::harness::process::Process;

use super::faces::{Caller, Face};
use crate::client::{together, upload};
use crate::format::Percentiles;
use crate::process::{Folio, cpu};

/// Size of a load.
pub(crate) struct Load {
    /// Clients, each with its own thread and connection.
    pub(crate) clients: usize,
    /// Turns of all clients together.
    pub(crate) turns: usize,
}

pub(crate) struct Measurements {
    pub(crate) turns_per_second: f64,
    pub(crate) cpu_per_turn: Duration,
    pub(crate) latency: Percentiles,
}

pub(crate) async fn of_folio(folio: &Folio, load: &Load) -> Result<Measurements> {
    of_face(folio, load, Face::Grpc).await
}

pub(crate) async fn of_face(folio: &Folio, load: &Load, face: Face) -> Result<Measurements> {
    let document = upload(&folio.client().await).await;
    run(&folio.process, &document, load, async || Caller::connect(folio, face).await).await
}

pub(crate) async fn of_proxy(proxy: &Process, load: &Load) -> Result<Measurements> {
    let connect = async || Caller::Grpc(Box::new(Client::connect(&proxy.url(), None).await));
    run(proxy, "", load, connect).await
}

/// Runs the load against a server: warm-up turns, then the measured ones.
async fn run(server: &Process, document: &str, load: &Load, connect: impl AsyncFn() -> Caller) -> Result<Measurements> {
    let each = load.turns / load.clients;
    round(document, load.clients, each / 10 + 1, &connect).await?;
    let (cpu_before, began) = (cpu(server)?, Instant::now());
    let latencies = round(document, load.clients, each, &connect).await?;
    let (elapsed, used) = (began.elapsed(), cpu(server)? - cpu_before);
    let turns = latencies.len();
    Ok(Measurements {
        turns_per_second: turns as f64 / elapsed.as_secs_f64(),
        cpu_per_turn: used / u32::try_from(turns)?,
        latency: Percentiles::of(latencies),
    })
}

async fn round(
    document: &str,
    clients: usize,
    turns: usize,
    connect: &impl AsyncFn() -> Caller,
) -> Result<Vec<Duration>> {
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (caller, document) = (connect().await, document.to_owned());
        tasks.push(async move {
            let (mut thread, mut latencies) = (String::new(), Vec::with_capacity(turns));
            for _ in 0..turns {
                let began = Instant::now();
                thread = caller.chat(&document, &thread).await?.thread;
                latencies.push(began.elapsed());
            }
            anyhow::Ok(latencies)
        });
    }
    Ok(together(tasks).await?.concat())
}
