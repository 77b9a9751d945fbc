//! Store operations per turn, by kind of turn.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use tonic::transport::Channel;

use super::processes::Cluster;
use super::takeover::{approve, pause};
use crate::client::{authorized, chat, connect, upload};

/// Prefix of the counted metrics. Their labels are `server` and `kind`.
const CALLS: &str = "folio_store_calls_total{";
/// Time for which background operations are counted.
const QUIET: Duration = Duration::from_secs(10);

/// Measurements of a kind of turn.
pub(crate) struct Measurements {
    pub(crate) kind: &'static str,
    /// Operations of a turn by the labels of their metric.
    pub(crate) operations: BTreeMap<String, f64>,
}

impl Measurements {
    /// Returns the operations that were sent to a server.
    pub(crate) fn of_server(&self, server: &str) -> f64 {
        let label = format!("server=\"{server}\"");
        self.operations.iter().filter(|(labels, _)| labels.contains(&label)).map(|(_, count)| count).sum()
    }
}

/// Returns the number of operations so far, by the labels of their metric.
async fn count(cluster: &Cluster) -> Result<BTreeMap<String, f64>> {
    let mut counts = BTreeMap::new();
    for (name, value) in cluster.metrics().await? {
        if let Some(labels) = name.strip_prefix(CALLS) {
            *counts.entry(labels.trim_end_matches('}').to_owned()).or_default() += value as f64;
        }
    }
    anyhow::ensure!(!counts.is_empty(), "no metric starts with {CALLS}");
    Ok(counts)
}

/// Returns the operations between two counts.
fn between(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    after.iter().map(|(labels, count)| (labels.clone(), count - before.get(labels).unwrap_or(&0.0))).collect()
}

/// Runs this number of turns of each kind sequentially on a resident thread. Background operations are subtracted.
pub(crate) async fn run(cluster: &Cluster, turns: usize) -> Result<Vec<Measurements>> {
    let document = upload(cluster.gateway(0), &cluster.token).await?;
    let mut client = ConversationServiceClient::new(connect(cluster.gateway(0)).await?);
    let thread = chat(&mut client, Some(&cluster.token), Some(&document), "").await?.thread;

    let before = count(cluster).await?;
    tokio::time::sleep(QUIET).await;
    let quiet = between(&before, &count(cluster).await?);

    let mut measurements = Vec::new();
    for (kind, begin) in [
        ("answer", "go on"),
        ("one round of a read-only tool, answer", "read"),
        ("one write tool, approved", "write"),
        ("one write tool, approved, in a new thread", "new"),
        ("one write tool, cancelled", "cancel"),
    ] {
        let (before, began) = (count(cluster).await?, std::time::Instant::now());
        for number in 0..turns {
            let named = if begin == "new" { "" } else { thread.as_str() };
            turn(&mut client, &cluster.token, &document, named, begin, number).await?;
        }
        let mut operations = between(&before, &count(cluster).await?);
        let share = began.elapsed().as_secs_f64() / QUIET.as_secs_f64();
        for (labels, count) in &mut operations {
            *count = (*count - quiet.get(labels).unwrap_or(&0.0) * share) / turns as f64;
        }
        operations.retain(|_, count| count.abs() >= 0.05);
        measurements.push(Measurements { kind, operations });
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
