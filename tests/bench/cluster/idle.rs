//! Idle conversations: their memory, and the fraction that moves when a node joins.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::processes::{Cluster, metrics};
use crate::client::{chat, together, upload};

/// Time after which a conversation is idle and evicts its events and history.
const IDLE: Duration = Duration::from_secs(30);
/// Metric of resident conversations.
const LIVE: &str = "folio_conversations";
/// Metric of threads that a node took over.
const TAKEN_OVER: &str = "folio_threads_taken_over_total";
const CLIENTS: usize = 16;

pub(crate) struct Measurements {
    /// Conversations on all nodes.
    pub(crate) conversations: usize,
    /// Resident memory per conversation, in bytes.
    pub(crate) bytes_each: f64,
    /// Fraction of resumed conversations that moved to the joined node.
    pub(crate) moved: f64,
    /// Fraction of new conversations on the joined node.
    pub(crate) placed: f64,
}

/// Creates conversations, waits until they are idle, adds a node, and chats on some of them and on as many new ones.
pub(crate) async fn run(
    cluster: &mut Cluster,
    conversations: usize,
    resumed_conversations: usize,
) -> Result<Measurements> {
    let document = upload(&cluster.client(0).await).await;
    // A warm-up allocates memory that every process needs once.
    run_turns(cluster, &document, &vec![String::new(); 500]).await?;
    tokio::time::sleep(IDLE).await;
    let before = memory(cluster)?;
    let threads = run_turns(cluster, &document, &vec![String::new(); conversations]).await?;
    tokio::time::sleep(IDLE).await;
    let bytes_each = memory(cluster)?.saturating_sub(before) as f64 / conversations as f64;

    cluster.join();
    wait_for_the_joined(cluster).await?;
    let again: Vec<String> = threads.into_iter().take(resumed_conversations).collect();
    let before = of_the_joined(cluster, TAKEN_OVER).await?;
    run_turns(cluster, &document, &again).await?;
    let moved = of_the_joined(cluster, TAKEN_OVER).await?.saturating_sub(before) as f64 / again.len() as f64;
    let before = of_the_joined(cluster, LIVE).await?;
    run_turns(cluster, &document, &vec![String::new(); resumed_conversations]).await?;
    let placed = of_the_joined(cluster, LIVE).await?.saturating_sub(before) as f64 / resumed_conversations as f64;
    Ok(Measurements { conversations, bytes_each, moved, placed })
}

/// Runs one turn on each of these threads, or on a new one for an empty id. Returns the thread ids.
async fn run_turns(cluster: &Cluster, document: &str, threads: &[String]) -> Result<Vec<String>> {
    let mut tasks = Vec::new();
    for (number, part) in threads.chunks(threads.len().div_ceil(CLIENTS).max(1)).enumerate() {
        let (client, document, part) = (cluster.client(number).await, document.to_owned(), part.to_vec());
        tasks.push(async move {
            let mut names = Vec::with_capacity(part.len());
            for thread in part {
                names.push(chat(&client, &document, &thread).await?.thread);
            }
            anyhow::Ok(names)
        });
    }
    Ok(together(tasks).await?.concat())
}

fn memory(cluster: &Cluster) -> Result<u64> {
    cluster.nodes.iter().map(crate::process::memory).sum()
}

/// Returns a metric of the node that joined last.
async fn of_the_joined(cluster: &Cluster, name: &str) -> Result<u64> {
    let node = cluster.nodes.last().context("no node")?;
    metrics(node).await?.get(name).copied().with_context(|| format!("{name} is missing"))
}

/// Waits until a new thread is placed on the joined node, so that the gateways know the node.
async fn wait_for_the_joined(cluster: &Cluster) -> Result<()> {
    let document = upload(&cluster.client(0).await).await;
    for _ in 0..100 {
        run_turns(cluster, &document, &vec![String::new(); CLIENTS]).await?;
        if of_the_joined(cluster, LIVE).await? > 0 {
            return Ok(());
        }
    }
    anyhow::bail!("the joined node got no thread")
}
