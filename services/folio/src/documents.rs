//! Upload of a file, and waiting for its text.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_proto::v1;
use folio_types::limits;
use tokio_stream::StreamExt as _;
use tonic::Status;

use crate::client::{Client, answer};

const CHUNK_BYTES: usize = 64 * 1024;

/// Interval between two reads of a document whose text is being extracted.
const POLL: Duration = Duration::from_millis(150);

/// Uploads a file. Repeating it with the same `request_id` (empty: none) returns the same document. `progress` receives
/// the number of bytes sent so far.
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
    let chunks: Vec<Vec<u8>> = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
    let chunks = chunks.into_iter().map(move |chunk| {
        sent += chunk.len();
        progress(sent);
        v1::UploadDocumentRequest { part: Some(v1::upload_document_request::Part::Chunk(chunk)) }
    });
    let parts = tokio_stream::once(first).chain(tokio_stream::iter(chunks));
    let document = client.documents().upload_document(parts).await?.into_inner().document;
    document.ok_or_else(|| Status::internal("invalid response of the server: the document is missing"))
}

/// Waits until the document's text is ready or has failed. `waiting` is called after each read of another state.
pub(crate) async fn wait_until_settled(
    client: &Client,
    id: &str,
    mut waiting: impl FnMut(&v1::Document),
) -> Result<v1::Document> {
    loop {
        let request = v1::GetDocumentRequest { document_id: id.to_owned() };
        let document = answer(client.documents().get_document(request)).await?.document;
        let document = document.context("invalid response of the server: the document is missing")?;
        match document.state() {
            v1::DocumentState::Ready | v1::DocumentState::NoText | v1::DocumentState::Failed => return Ok(document),
            _ => waiting(&document),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Returns the file name, reduced to a valid document name.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let line: String = name.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let name: String = line.trim().chars().take(limits::NAME_CHARS).collect();
    let name = name.trim_end();
    if name.is_empty() { "document".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_named_after_its_file_if_the_name_is_valid() {
        let long = "x".repeat(300);
        for (path, name) in [
            ("a/b.pdf", "b.pdf"),
            ("/tmp/ \u{3000} ", "document"),
            (" b\tc.txt ", "b c.txt"),
            (&long, &long[..200]),
            ("..", "document"),
        ] {
            let reduced = name_of(Path::new(path));
            assert_eq!(reduced, name);
            folio_resources::fields::check_name("name", &reduced).unwrap();
        }
    }
}
