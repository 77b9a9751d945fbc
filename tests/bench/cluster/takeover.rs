//! Time from the kill of an owner until another node accepts the approval of its paused turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use tonic::transport::Channel;

use super::processes::{Cluster, metrics};
use crate::client::{authorized, connect, upload};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Timeout, far above the goal.
const LIMIT: Duration = Duration::from_secs(60);

/// Measurements of a takeover.
pub(crate) struct Measurements {
    /// Turns of the killed node.
    pub(crate) taken_over: usize,
    /// Time from the kill to the response to the first approval.
    pub(crate) first: Duration,
    /// Time from the kill to the response to the last approval.
    pub(crate) last: Duration,
}

/// Pauses turns on all nodes, kills one node, and approves all turns.
pub(crate) async fn run(cluster: &mut Cluster, turns: usize) -> Result<Measurements> {
    let document = upload(cluster.gateway(0), &cluster.token).await?;
    let mut paused = Vec::new();
    for number in 0..turns {
        let mut client = ConversationServiceClient::new(connect(cluster.gateway(number)).await?);
        let waiting = pause(&mut client, &cluster.token, &document, "", &format!("write {number}")).await?;
        paused.push((client, waiting));
    }
    let mut victim = cluster.nodes.pop().context("no node")?;
    let owned = metrics(&victim).await?.get("folio_conversations").copied().unwrap_or(0);
    let owned = usize::try_from(owned)?;
    anyhow::ensure!(owned > 0, "the node to be killed owns no turn");
    victim.kill()?;
    let killed = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (client, waiting) in paused {
        let token = cluster.token.clone();
        tasks.spawn(async move { approved(client, &token, &waiting, killed).await });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.push(done??);
    }
    times.sort();
    // Turns of live owners are approved within moments, so the slowest ones are those of the killed node.
    let taken_over = times.get(times.len() - owned..).unwrap_or_default();
    let (first, last) = (taken_over.first().context("none")?, taken_over.last().context("none")?);
    Ok(Measurements { taken_over: owned, first: *first, last: *last })
}

/// Starts a turn that waits for approval, in this thread or in a new one for an empty id.
pub(crate) async fn pause(
    client: &mut ConversationServiceClient<Channel>,
    token: &str,
    document: &str,
    thread: &str,
    text: &str,
) -> Result<v1::AwaitingApproval> {
    let documents = if thread.is_empty() { vec![document.to_owned()] } else { Vec::new() };
    let request = v1::ChatRequest {
        text: text.to_owned(),
        thread_id: thread.to_owned(),
        document_ids: documents,
        ..v1::ChatRequest::default()
    };
    let mut stream = client.chat(authorized(Some(token), request)?).await?.into_inner();
    while let Some(item) = stream.message().await? {
        if let Some(v1::event::Kind::AwaitingApproval(waiting)) = item.event.and_then(|event| event.kind) {
            return Ok(waiting);
        }
    }
    anyhow::bail!("the turn did not pause")
}

/// Approves all pending calls.
pub(crate) async fn approve(
    client: &mut ConversationServiceClient<Channel>,
    token: &str,
    waiting: &v1::AwaitingApproval,
) -> Result<(), tonic::Status> {
    let decide = |call: &v1::Call| v1::Decision {
        call_id: call.call_id.clone(),
        arguments_digest: call.arguments_digest.clone(),
        decision: Some(v1::decision::Decision::Approved(v1::Approved {})),
    };
    let request = v1::ApproveRequest {
        turn_id: waiting.turn_id.clone(),
        round: waiting.round,
        decisions: waiting.pending.iter().filter(|call| call.needs_approval).map(decide).collect(),
        ..v1::ApproveRequest::default()
    };
    let request = authorized(Some(token), request).map_err(|error| tonic::Status::internal(error.to_string()))?;
    client.approve(request).await.map(|_| ())
}

/// Returns the time from the kill to the response.
async fn approved(
    mut client: ConversationServiceClient<Channel>,
    token: &str,
    waiting: &v1::AwaitingApproval,
    killed: Instant,
) -> Result<Duration> {
    loop {
        match approve(&mut client, token, waiting).await {
            Ok(()) => return Ok(killed.elapsed()),
            Err(status) if status.code() == tonic::Code::Unavailable && killed.elapsed() < LIMIT => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => return Err(status.into()),
        }
    }
}
