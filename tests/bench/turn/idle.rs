//! Memory of conversations that are resident and do nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;

use crate::load::{chat, connect, upload};
use crate::process::Folio;

/// What was measured.
pub(crate) struct Figures {
    pub(crate) conversations: usize,
    pub(crate) bytes_each: f64,
}

/// Starts a server, gives it this many conversations of one turn each, and compares its memory before and after. The
/// messages of the turn (about 0.5 KiB) are in it; the store's caches are filled by some turns before.
pub(crate) async fn run(model_endpoint: &str, conversations: usize) -> Result<Figures> {
    let settings = [("FOLIO_CONVERSATION__LIVE_MAX", "200000"), ("FOLIO_CONVERSATION__IDLE_TIMEOUT_SECONDS", "86400")];
    let folio = Folio::start(model_endpoint, &settings)?;
    let document = upload(&folio.process, &folio.token).await?;
    spread(&folio, &document, 1_000).await?;
    let before = folio.process.memory()?;
    spread(&folio, &document, conversations).await?;
    let after = folio.process.memory()?;
    Ok(Figures { conversations, bytes_each: after.saturating_sub(before) as f64 / conversations as f64 })
}

async fn spread(folio: &Folio, document: &str, conversations: usize) -> Result<()> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (address, token) = (folio.process.address.clone(), folio.token.clone());
        let (document, next) = (document.to_owned(), Arc::clone(&next));
        tasks.spawn(async move {
            let mut client = ConversationServiceClient::new(connect(&address).await?);
            while next.fetch_add(1, Ordering::Relaxed) < conversations {
                chat(&mut client, Some(&token), Some(&document), "").await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
