//! Turns per second, CPU time per turn, latency.

use std::time::{Duration, Instant};

use anyhow::Result;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;

use crate::client::{chat, connect, upload};
use crate::format::percentile;
use crate::process::Process;

/// Size of a load.
pub(crate) struct Load {
    /// Clients, each with its own thread and connection.
    pub(crate) clients: usize,
    /// Turns of all clients together.
    pub(crate) turns: usize,
}

/// Measurements of a load.
pub(crate) struct Measurements {
    pub(crate) turns_per_second: f64,
    pub(crate) cpu_per_turn: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Runs the load against a server: warm-up turns, then the measured ones.
pub(crate) async fn run(server: &Process, token: Option<&str>, load: &Load) -> Result<Measurements> {
    let each = load.turns / load.clients;
    round(server, token, load.clients, each / 10 + 1).await?;
    let (cpu, began) = (server.cpu()?, Instant::now());
    let mut latencies = round(server, token, load.clients, each).await?;
    let (elapsed, cpu) = (began.elapsed(), server.cpu()? - cpu);
    latencies.sort();
    let turns = latencies.len();
    Ok(Measurements {
        turns_per_second: turns as f64 / elapsed.as_secs_f64(),
        cpu_per_turn: cpu / u32::try_from(turns)?,
        p50: percentile(&latencies, 0.50),
        p99: percentile(&latencies, 0.99),
    })
}

async fn round(server: &Process, token: Option<&str>, clients: usize, turns: usize) -> Result<Vec<Duration>> {
    let document = match token {
        Some(token) => Some(upload(&server.address, token).await?),
        None => None,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (address, token, document) = (server.address.clone(), token.map(str::to_owned), document.clone());
        tasks.spawn(async move { client(&address, token.as_deref(), document, turns).await });
    }
    let mut latencies = Vec::with_capacity(clients * turns);
    while let Some(done) = tasks.join_next().await {
        latencies.extend(done??);
    }
    Ok(latencies)
}

async fn client(address: &str, token: Option<&str>, document: Option<String>, turns: usize) -> Result<Vec<Duration>> {
    let mut client = ConversationServiceClient::new(connect(address).await?);
    let mut thread = String::new();
    let mut latencies = Vec::with_capacity(turns);
    for _ in 0..turns {
        let began = Instant::now();
        thread = chat(&mut client, token, document.as_ref(), &thread).await?.thread;
        latencies.push(began.elapsed());
    }
    Ok(latencies)
}
