//! Time until a passivated conversation accepts its next turn.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_tests::harness::client::Client;

use crate::client::{QUESTION, chat, request, upload};
use crate::format::Percentiles;
use crate::process::Folio;

/// Creates conversations of several turns, waits for their passivation, and chats once on each. Returns the latencies
/// from the request to its `turn_started`, including the durable write of the turn.
pub(crate) async fn run(model_endpoint: &str, conversations: usize) -> Result<Percentiles> {
    let folio = Folio::start(model_endpoint, &[("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "1")])?;
    let client = folio.client().await;
    let document = upload(&client).await;
    let mut threads = Vec::with_capacity(conversations);
    for _ in 0..conversations {
        let mut thread = String::new();
        for _ in 0..5 {
            thread = chat(&client, &document, &thread).await?.thread;
        }
        threads.push(thread);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut latencies = Vec::with_capacity(conversations);
    for thread in &threads {
        latencies.push(started(&client, thread).await?);
    }
    Ok(Percentiles::of(latencies))
}

async fn started(client: &Client, thread: &str) -> Result<Duration> {
    let began = Instant::now();
    let mut stream = client.conversations.clone().chat(request("", thread, QUESTION)).await?.into_inner();
    let first = stream.message().await?.and_then(|item| item.event).and_then(|event| event.kind).context("no event")?;
    anyhow::ensure!(matches!(first, v1::event::Kind::TurnStarted(_)), "another event came first: {first:?}");
    let elapsed = began.elapsed();
    while stream.message().await?.is_some() {}
    Ok(elapsed)
}
