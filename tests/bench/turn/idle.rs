//! Memory of resident idle conversations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;

use super::load::{self, Load};
use crate::client::{chat, connect, upload};
use crate::process::Folio;

/// Measurements of idle conversations.
pub(crate) struct Measurements {
    pub(crate) conversations: usize,
    /// Resident memory per conversation.
    pub(crate) bytes_each: f64,
    /// Size of the text of its messages, which is part of the memory.
    pub(crate) message_bytes_each: f64,
}

/// Warm-up turns that fill the store's caches before the comparison.
const FILLING: Load = Load { clients: 16, turns: 8_000 };
/// Time after which the events of ended turns are evicted and a conversation is idle.
const IDLE: Duration = Duration::from_secs(30);

/// Starts a server, creates this number of conversations with one turn each, and compares its memory before and after.
pub(crate) async fn run(model_endpoint: &str, conversations: usize) -> Result<Measurements> {
    let settings = [
        ("FOLIO_CONVERSATION__LIVE_MAX", "200000"),
        ("FOLIO_CONVERSATION__HISTORY_BYTES_MAX", "4000000000"),
        ("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "86400"),
    ];
    let folio = Folio::start(model_endpoint, &settings)?;
    let document = upload(&folio.process.address, &folio.token).await?;
    load::run(&folio.process, Some(&folio.token), &FILLING).await?;
    spread(&folio, &document, 1_000).await?;
    tokio::time::sleep(IDLE).await;
    let before = folio.process.memory()?;
    let message_bytes = spread(&folio, &document, conversations).await?;
    tokio::time::sleep(IDLE).await;
    let after = folio.process.memory()?;
    let each = |bytes: u64| bytes as f64 / conversations as f64;
    let bytes_each = each(after.saturating_sub(before));
    Ok(Measurements { conversations, bytes_each, message_bytes_each: each(message_bytes) })
}

/// Creates this number of conversations with one turn each. Returns the size of their messages.
async fn spread(folio: &Folio, document: &str, conversations: usize) -> Result<u64> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (address, token) = (folio.process.address.clone(), folio.token.clone());
        let (document, next) = (document.to_owned(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut client = ConversationServiceClient::new(connect(&address).await?);
            let mut message_bytes = 0;
            while next.fetch_add(1, Ordering::Relaxed) < conversations {
                message_bytes += chat(&mut client, Some(&token), Some(&document), "").await?.message_bytes;
            }
            anyhow::Ok(message_bytes)
        });
    }
    let mut message_bytes = 0;
    while let Some(done) = tasks.join_next().await {
        message_bytes += done??;
    }
    Ok(message_bytes)
}
