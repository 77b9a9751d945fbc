//! A client of the public API for the benchmarks.

use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_proto::v1::conversation_service_client::ConversationServiceClient;
use folio_proto::v1::document_service_client::DocumentServiceClient;
use tonic::Request;
use tonic::transport::Channel;

/// Connects to `http://HOST:PORT` or `HOST:PORT`.
pub(crate) async fn connect(address: &str) -> Result<Channel> {
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    Ok(tonic::transport::Endpoint::from_shared(url)?.connect().await?)
}

/// A completed turn.
pub(crate) struct Turn {
    pub(crate) thread: String,
    /// Size of the text of its messages.
    pub(crate) message_bytes: u64,
}

const QUESTION: &str = "go on";

/// Runs one turn to its end.
pub(crate) async fn chat(
    client: &mut ConversationServiceClient<Channel>,
    token: Option<&str>,
    document: Option<&String>,
    thread: &str,
) -> Result<Turn> {
    let request = v1::ChatRequest {
        text: QUESTION.to_owned(),
        thread_id: thread.to_owned(),
        document_ids: if thread.is_empty() { document.cloned().into_iter().collect() } else { Vec::new() },
        ..v1::ChatRequest::default()
    };
    let mut stream = client.chat(authorized(token, request)?).await?.into_inner();
    let mut thread = thread.to_owned();
    let mut completed = token.is_none();
    let mut answer_bytes = 0;
    while let Some(item) = stream.message().await? {
        match item.event.and_then(|event| event.kind) {
            Some(v1::event::Kind::TurnStarted(started)) => thread = started.thread_id,
            Some(v1::event::Kind::Completed(ended)) => {
                completed = true;
                answer_bytes = ended.text.len();
            }
            Some(v1::event::Kind::Failed(failed)) => anyhow::bail!("the turn failed: {failed:?}"),
            _ => {}
        }
    }
    anyhow::ensure!(completed, "the stream ended without a completed turn");
    Ok(Turn { thread, message_bytes: (QUESTION.len() + answer_bytes) as u64 })
}

/// Returns a request with the token, if there is one.
pub(crate) fn authorized<T>(token: Option<&str>, message: T) -> Result<Request<T>> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse()?);
    }
    Ok(request)
}

/// Uploads a short text and waits until it is ingested. Returns its id.
pub(crate) async fn upload(address: &str, token: &str) -> Result<String> {
    let mut client = DocumentServiceClient::new(connect(address).await?);
    let description = v1::DocumentDescription { name: "bench.txt".to_owned(), ..v1::DocumentDescription::default() };
    let parts = [
        v1::upload_document_request::Part::Description(description),
        v1::upload_document_request::Part::Chunk(b"Invoice Number: 1\nTotal: 2.00 EUR\n".to_vec()),
    ]
    .map(|part| v1::UploadDocumentRequest { part: Some(part) });
    let answer = client.upload_document(authorized(Some(token), tokio_stream::iter(parts))?).await?.into_inner();
    let mut document = answer.document.context("no document")?;
    while !matches!(document.state(), v1::DocumentState::Ready | v1::DocumentState::Failed | v1::DocumentState::NoText)
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let request = v1::GetDocumentRequest { document_id: document.document_id.clone() };
        document = client
            .get_document(authorized(Some(token), request)?)
            .await?
            .into_inner()
            .document
            .context("no document")?;
    }
    Ok(document.document_id)
}
