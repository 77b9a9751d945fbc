//! Time from the kill of an owner until another node answers: the approval of its paused turns, and the next chat on its
//! idle threads.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_tests::harness::client::{Client, approved, decide};
use folio_tests::harness::process::Process;

use super::processes::{Cluster, metrics};
use crate::client::{QUESTION, chat, request, together, upload};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum time after the kill at which a request is retried.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Measurements {
    /// Approvals of turns that waited at the kill.
    pub(crate) approvals: Times,
    /// Chats on threads that were idle at the kill, to the end of their answers.
    pub(crate) chats: Times,
}

/// Times from the kill.
pub(crate) struct Times {
    /// Number of threads that the killed node owned.
    pub(crate) taken_over: usize,
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

impl Times {
    /// `owned`: number of threads of the killed node. Live owners answer within moments, so the slowest answers are those
    /// on the threads of the killed node.
    fn of(mut times: Vec<Duration>, owned: usize) -> Result<Self> {
        times.sort();
        let taken_over = times.get(times.len().saturating_sub(owned)..).unwrap_or_default();
        let (first, last) = taken_over.first().zip(taken_over.last()).context("the killed node owned no thread")?;
        Ok(Self { taken_over: owned, first: *first, last: *last })
    }
}

/// Pauses turns on all nodes, completes turns on as many other threads, kills one node, and approves all turns and chats
/// on all idle threads.
pub(crate) async fn run(cluster: &mut Cluster, threads: usize) -> Result<Measurements> {
    let document = upload(&cluster.client(0).await).await;
    let victim = cluster.nodes.pop().context("the cluster has no node to kill")?;
    let before = conversations(&victim).await?;
    let mut paused = Vec::new();
    for number in 0..threads {
        let client = cluster.client(number).await;
        let waiting = client.send(request(&document, "", &format!("write {number}"))).await?.pause().await;
        paused.push((client, waiting));
    }
    let with_paused = conversations(&victim).await?;
    let mut idle = Vec::new();
    for number in 0..threads {
        let client = cluster.client(number).await;
        let thread = chat(&client, &document, "").await?.thread;
        idle.push((client, thread));
    }
    let with_idle = conversations(&victim).await?;
    victim.kill();
    let killed = Instant::now();
    let approvals = paused.into_iter().map(|(client, waiting)| async move { approve(client, &waiting, killed).await });
    let chats = idle.into_iter().map(|(client, thread)| async move { chat_again(client, &thread, killed).await });
    let (approvals, chats) = tokio::join!(together(approvals), together(chats));
    Ok(Measurements {
        approvals: Times::of(approvals?, with_paused.saturating_sub(before))?,
        chats: Times::of(chats?, with_idle.saturating_sub(with_paused))?,
    })
}

/// Returns the number of conversations in the memory of a node.
async fn conversations(node: &Process) -> Result<usize> {
    Ok(usize::try_from(metrics(node).await?.get("folio_conversations").copied().unwrap_or(0))?)
}

/// Approves a turn, with retries while its owner is unavailable. Returns the time from the kill to the response.
async fn approve(client: Client, waiting: &v1::AwaitingApproval, killed: Instant) -> Result<Duration> {
    let decision = decide(waiting, approved);
    let send = || {
        let (mut conversations, decision) = (client.conversations.clone(), decision.clone());
        async move { conversations.approve(decision).await.map(drop) }
    };
    retry(killed, send).await
}

/// Chats on a thread, with retries while its owner is unavailable. Returns the time from the kill to the end of the
/// answer.
async fn chat_again(client: Client, thread: &str, killed: Instant) -> Result<Duration> {
    let chat = v1::ChatRequest { request_id: format!("again-{thread}"), ..request("", thread, QUESTION) };
    let send = || {
        let (mut conversations, chat) = (client.conversations.clone(), chat.clone());
        async move {
            let (mut stream, mut last) = (conversations.chat(chat).await?.into_inner(), None);
            while let Some(item) = stream.message().await? {
                last = item.event.and_then(|event| event.kind);
            }
            match last {
                Some(v1::event::Kind::Completed(_)) => Ok(()),
                other => Err(tonic::Status::internal(format!("the last event is {other:?}"))),
            }
        }
    };
    retry(killed, send).await
}

/// Repeats a request while it is unavailable. Returns the time from the kill to its success.
async fn retry<F>(killed: Instant, send: impl Fn() -> F) -> Result<Duration>
where
    F: Future<Output = Result<(), tonic::Status>>,
{
    loop {
        match send().await {
            Ok(()) => return Ok(killed.elapsed()),
            Err(status) if status.code() == tonic::Code::Unavailable && killed.elapsed() < LIMIT => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => return Err(status.into()),
        }
    }
}
