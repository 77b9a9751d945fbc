//! Time from the kill of an owner until another node accepts the approval of its paused turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_tests::harness::client::{Client, approved, decide};

use super::processes::{Cluster, metrics};
use crate::client::{request, together, upload};

/// Pause between two attempts to approve a turn.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time after the kill at which an approval is retried.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Measurements {
    /// Number of turns that the killed node owned.
    pub(crate) taken_over: usize,
    /// Time from the kill to the response to the first approval.
    pub(crate) first: Duration,
    /// Time from the kill to the response to the last approval.
    pub(crate) last: Duration,
}

/// Pauses turns on all nodes, kills one node, and approves all turns.
pub(crate) async fn run(cluster: &mut Cluster, turns: usize) -> Result<Measurements> {
    let document = upload(&cluster.client(0).await).await;
    let mut paused = Vec::new();
    for number in 0..turns {
        let client = cluster.client(number).await;
        let waiting = client.send(request(&document, "", &format!("write {number}"))).await?.pause().await;
        paused.push((client, waiting));
    }
    let victim = cluster.nodes.pop().context("the cluster has no node to kill")?;
    let owned = metrics(&victim).await?.get("folio_conversations").copied().unwrap_or(0);
    let owned = usize::try_from(owned)?;
    anyhow::ensure!(owned > 0, "the node to be killed owns no turn");
    victim.kill();
    let killed = Instant::now();
    let tasks = paused.into_iter().map(|(client, waiting)| async move { approve(client, &waiting, killed).await });
    let mut times = together(tasks).await?;
    times.sort();
    // Turns of live owners are approved within moments, so the slowest ones are those of the killed node.
    let taken_over = times.get(times.len() - owned..).unwrap_or_default();
    let (first, last) =
        (taken_over.first().context("no turn was taken over")?, taken_over.last().context("no turn was taken over")?);
    Ok(Measurements { taken_over: owned, first: *first, last: *last })
}

/// Approves a turn, with retries while its owner is unavailable. Returns the time from the kill to the response.
async fn approve(client: Client, waiting: &v1::AwaitingApproval, killed: Instant) -> Result<Duration> {
    loop {
        match client.conversations.clone().approve(decide(waiting, approved)).await {
            Ok(_) => return Ok(killed.elapsed()),
            Err(status) if status.code() == tonic::Code::Unavailable && killed.elapsed() < LIMIT => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => return Err(status.into()),
        }
    }
}
