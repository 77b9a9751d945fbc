//! Memory of resident idle conversations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::load::{self, Load};
use crate::client::{chat, together, upload};
use crate::process::{Folio, memory};

pub(crate) struct Measurements {
    pub(crate) conversations: usize,
    /// Resident memory per conversation, in bytes.
    pub(crate) bytes_each: f64,
    /// Size of the message texts per conversation in bytes, a part of `bytes_each`.
    pub(crate) message_bytes_each: f64,
}

/// Warm-up turns that fill the store's caches before the comparison.
const FILLING: Load = Load { clients: 32, turns: 40_000 };
/// Time after which the events of ended turns are evicted and a conversation is idle.
const IDLE: Duration = Duration::from_secs(30);

/// Starts a server, creates conversations with one turn each, and compares the memory of the server before and after.
pub(crate) async fn run(model_endpoint: &str, conversations: usize) -> Result<Measurements> {
    let settings = [
        ("FOLIO_CONVERSATION__LIVE_MAX", "200000"),
        ("FOLIO_CONVERSATION__HISTORY_BYTES_MAX", "4000000000"),
        ("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "86400"),
    ];
    let folio = Folio::start(model_endpoint, &settings)?;
    let document = upload(&folio.client().await).await;
    load::of_folio(&folio, &FILLING).await?;
    create_conversations(&folio, &document, 1_000).await?;
    tokio::time::sleep(IDLE).await;
    let before = memory(&folio.process)?;
    let message_bytes = create_conversations(&folio, &document, conversations).await?;
    tokio::time::sleep(IDLE).await;
    let after = memory(&folio.process)?;
    let each = |bytes: u64| bytes as f64 / conversations as f64;
    let bytes_each = each(after.saturating_sub(before));
    Ok(Measurements { conversations, bytes_each, message_bytes_each: each(message_bytes) })
}

/// Creates `conversations` conversations with one turn each. Returns the size of their message texts in bytes.
async fn create_conversations(folio: &Folio, document: &str, conversations: usize) -> Result<u64> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..16 {
        let (client, document, next) = (folio.client().await, document.to_owned(), Arc::clone(&next));
        tasks.push(async move {
            let mut message_bytes = 0;
            while next.fetch_add(1, Ordering::Relaxed) < conversations {
                message_bytes += chat(&client, &document, "").await?.message_bytes;
            }
            anyhow::Ok(message_bytes)
        });
    }
    Ok(together(tasks).await?.into_iter().sum())
}
