//! Store operations per turn, by kind of turn.

use std::time::Duration;

use anyhow::Result;
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use tonic::transport::Channel;

use super::processes::Cluster;
use super::takeover::{approve, pause};
use crate::client::{authorized, chat, connect, upload};

/// Prefixes of the counted metrics.
const CQL: &str = "folio_store_calls_total{server=\"cql\"";
const REDIS: &str = "folio_store_calls_total{server=\"redis\"";
/// Time for which background operations are counted.
const QUIET: Duration = Duration::from_secs(10);

/// Measurements of a kind of turn.
pub(crate) struct Measurements {
    pub(crate) kind: &'static str,
    pub(crate) cql: f64,
    pub(crate) redis: f64,
}

/// Counted operations.
#[derive(Clone, Copy)]
struct Count {
    cql: f64,
    redis: f64,
}

impl Count {
    async fn of(cluster: &Cluster) -> Result<Self> {
        let measurements = cluster.metrics().await?;
        let sum = |begin: &str| {
            let parts: Vec<u64> =
                measurements.iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, value)| *value).collect();
            anyhow::ensure!(!parts.is_empty(), "no metric starts with {begin}");
            Ok(parts.iter().sum::<u64>() as f64)
        };
        Ok(Self { cql: sum(CQL)?, redis: sum(REDIS)? })
    }
}

/// Runs this number of turns of each kind sequentially on a resident thread. Background operations are subtracted.
pub(crate) async fn run(cluster: &Cluster, turns: usize) -> Result<Vec<Measurements>> {
    let document = upload(cluster.gateway(0), &cluster.token).await?;
    let mut client = ConversationServiceClient::new(connect(cluster.gateway(0)).await?);
    let thread = chat(&mut client, Some(&cluster.token), Some(&document), "").await?.thread;

    let before = Count::of(cluster).await?;
    tokio::time::sleep(QUIET).await;
    let after = Count::of(cluster).await?;
    let seconds = QUIET.as_secs_f64();
    let quiet = Count { cql: (after.cql - before.cql) / seconds, redis: (after.redis - before.redis) / seconds };

    let mut measurements = Vec::new();
    for (kind, begin) in [
        ("answer", "go on"),
        ("one round of a read-only tool, answer", "read"),
        ("one write tool, approved", "write"),
        ("one write tool, approved, in a new thread", "new"),
        ("one write tool, cancelled", "cancel"),
    ] {
        let (before, began) = (Count::of(cluster).await?, std::time::Instant::now());
        for number in 0..turns {
            let named = if begin == "new" { "" } else { thread.as_str() };
            turn(&mut client, &cluster.token, &document, named, begin, number).await?;
        }
        let after = Count::of(cluster).await?;
        let elapsed = began.elapsed().as_secs_f64();
        let each = |count: f64, quiet: f64| ((count - quiet * elapsed) / turns as f64).max(0.0);
        let (cql, redis) = (each(after.cql - before.cql, quiet.cql), each(after.redis - before.redis, quiet.redis));
        measurements.push(Measurements { kind, cql, redis });
    }
    Ok(measurements)
}

async fn turn(
    client: &mut ConversationServiceClient<Channel>,
    token: &str,
    document: &str,
    thread: &str,
    begin: &str,
    number: usize,
) -> Result<()> {
    let text = match begin {
        "go on" | "read" => begin.to_owned(),
        kind => format!("write {kind} {number}"),
    };
    if matches!(begin, "go on" | "read") {
        let request = v1::ChatRequest { thread_id: thread.to_owned(), text, ..v1::ChatRequest::default() };
        let mut stream = client.chat(authorized(Some(token), request)?).await?.into_inner();
        while stream.message().await?.is_some() {}
        return Ok(());
    }
    let waiting = pause(client, token, document, thread, &text).await?;
    if begin == "cancel" {
        let request = v1::CancelTurnRequest { turn_id: waiting.turn_id, ..v1::CancelTurnRequest::default() };
        client.cancel_turn(authorized(Some(token), request)?).await?;
    } else {
        approve(client, token, &waiting).await?;
    }
    Ok(())
}
