//! Bringing a file to the server and waiting for its text.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use folio_proto::v1;
use tokio_stream::StreamExt as _;
use tonic::Status;

use crate::client::{Client, explain};

/// Bytes of one chunk of an upload.
const CHUNK_BYTES: usize = 64 * 1024;

/// How often a document's state is asked while its text is being read.
const POLL: Duration = Duration::from_millis(150);

/// Uploads the bytes under a name; with the same `request_id` (empty: none) it is the same document. `progress` is told
/// how many bytes have been taken.
pub(crate) async fn upload(
    client: &Client,
    name: &str,
    bytes: Vec<u8>,
    request_id: &str,
    mut progress: impl FnMut(usize) + Send + 'static,
) -> Result<v1::Document, Status> {
    let description = v1::DocumentDescription {
        name: name.to_owned(),
        request_id: request_id.to_owned(),
        size_bytes: bytes.len() as u64,
        ..v1::DocumentDescription::default()
    };
    let first = v1::UploadDocumentRequest { part: Some(v1::upload_document_request::Part::Description(description)) };
    let mut sent = 0;
    let chunks = chunks(bytes).into_iter().map(move |chunk| {
        sent += chunk.len();
        progress(sent);
        v1::UploadDocumentRequest { part: Some(v1::upload_document_request::Part::Chunk(chunk)) }
    });
    let parts = tokio_stream::once(first).chain(tokio_stream::iter(chunks));
    let answer = client.documents().upload_document(parts).await?.into_inner();
    answer.document.ok_or_else(|| Status::internal("the server answered the upload without a document"))
}

fn chunks(bytes: Vec<u8>) -> Vec<Vec<u8>> {
    bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect()
}

/// Waits until the document's text is there, or is not going to be; `waiting` is called at each look.
pub(crate) async fn settled(client: &Client, id: &str, mut waiting: impl FnMut(&v1::Document)) -> Result<v1::Document> {
    loop {
        let request = v1::GetDocumentRequest { document_id: id.to_owned() };
        let answer = client.documents().get_document(request).await.map_err(|status| explain(&status))?;
        let Some(document) = answer.into_inner().document else { bail!("the server answered without the document") };
        match document.state() {
            v1::DocumentState::Ready | v1::DocumentState::NoText | v1::DocumentState::Failed => return Ok(document),
            _ => waiting(&document),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The name that a file's document gets.
pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| "document".to_owned(), |name| name.to_string_lossy().into_owned())
}
