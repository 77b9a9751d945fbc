//! Time until a passivated conversation accepts its next turn.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;

use crate::client::{authorized, chat, connect, upload};
use crate::format::percentile;
use crate::process::Folio;

/// Latencies from the request to its `turn_started`, including the durable write of the turn.
pub(crate) struct Measurements {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// Creates conversations of several turns, restarts the server with passivation on the same data, and chats once on
/// each.
pub(crate) async fn run(model_endpoint: &str, conversations: usize) -> Result<Measurements> {
    let folio = Folio::start(model_endpoint, &[("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "1")])?;
    let document = upload(&folio.process.address, &folio.token).await?;
    let mut client = ConversationServiceClient::new(connect(&folio.process.address).await?);
    let mut threads = Vec::with_capacity(conversations);
    for _ in 0..conversations {
        let mut thread = chat(&mut client, Some(&folio.token), Some(&document), "").await?.thread;
        for _ in 0..4 {
            thread = chat(&mut client, Some(&folio.token), None, &thread).await?.thread;
        }
        threads.push(thread);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut latencies = Vec::with_capacity(conversations);
    for thread in &threads {
        latencies.push(started(&mut client, &folio.token, thread).await?);
    }
    latencies.sort();
    Ok(Measurements { p50: percentile(&latencies, 0.50), p99: percentile(&latencies, 0.99) })
}

async fn started(
    client: &mut ConversationServiceClient<tonic::transport::Channel>,
    token: &str,
    thread: &str,
) -> Result<Duration> {
    let request =
        v1::ChatRequest { thread_id: thread.to_owned(), text: "go on".to_owned(), ..v1::ChatRequest::default() };
    let began = Instant::now();
    let mut stream = client.chat(authorized(Some(token), request)?).await?.into_inner();
    let first = stream.message().await?.and_then(|item| item.event).and_then(|event| event.kind).context("no event")?;
    anyhow::ensure!(matches!(first, v1::event::Kind::TurnStarted(_)), "another event came first: {first:?}");
    let elapsed = began.elapsed();
    while stream.message().await?.is_some() {}
    Ok(elapsed)
}
