//! Turns of the benchmarks.

use anyhow::{Result, ensure};
use folio_proto::v1;
use folio_proto::v1::event::Kind;
use folio_tests::harness::client::Client;

/// A completed turn.
pub(crate) struct Turn {
    pub(crate) thread: String,
    /// Size of the text of its messages.
    pub(crate) message_bytes: u64,
}

pub(crate) const QUESTION: &str = "go on";

/// Returns a chat in this thread, or about the document in a new one for an empty id.
pub(crate) fn request(document: &str, thread: &str, text: &str) -> v1::ChatRequest {
    let is_new = thread.is_empty() && !document.is_empty();
    v1::ChatRequest {
        text: text.to_owned(),
        thread_id: thread.to_owned(),
        document_ids: is_new.then(|| document.to_owned()).into_iter().collect(),
        ..v1::ChatRequest::default()
    }
}

/// Runs one turn to its end. The bare proxy has no documents and no threads, and streams deltas only.
pub(crate) async fn chat(client: &Client, document: &str, thread: &str) -> Result<Turn> {
    let mut stream = client.conversations.clone().chat(request(document, thread, QUESTION)).await?.into_inner();
    let (mut thread, mut answer_bytes) = (thread.to_owned(), document.is_empty().then_some(0));
    while let Some(item) = stream.message().await? {
        match item.event.and_then(|event| event.kind) {
            Some(Kind::TurnStarted(started)) => thread = started.thread_id,
            Some(Kind::Completed(ended)) => answer_bytes = Some(ended.text.len()),
            Some(Kind::Failed(failed)) => anyhow::bail!("the turn failed: {failed:?}"),
            _ => {}
        }
    }
    ensure!(answer_bytes.is_some(), "the stream ended without a completed turn");
    Ok(Turn { thread, message_bytes: (QUESTION.len() + answer_bytes.unwrap_or(0)) as u64 })
}

/// Uploads a short text and waits until it is ingested. Returns its id.
pub(crate) async fn upload(client: &Client) -> String {
    client.upload("bench.txt", b"Invoice Number: 1\nTotal: 2.00 EUR\n").await
}

/// Runs tasks concurrently, and returns their results.
pub(crate) async fn together<T, F>(tasks: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut running = tokio::task::JoinSet::new();
    tasks.into_iter().for_each(|task| drop(running.spawn(task)));
    let mut results = Vec::new();
    while let Some(done) = running.join_next().await {
        results.push(done??);
    }
    Ok(results)
}
