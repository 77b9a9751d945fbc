//! Uploads of files.

use std::sync::Arc;

use bytes::Bytes;
use folio_proto::v1;
use folio_proto::v1::upload_document_request::Part;
use futures::{Stream, stream};

use crate::connection::Client;
use crate::error::Result;
use crate::extraction::present;
use crate::turn::set_request_id;

const CHUNK_BYTES: usize = 64 * 1024;

impl Client {
    /// Uploads a file. `description`: the name, the tags and further facts; the size is set, and an idempotency key if it has none, so
    /// that the file is sent again after a lost connection. `progress` receives the number of bytes sent so far.
    ///
    /// # Errors
    /// The server refuses the request.
    pub async fn upload(
        &self,
        bytes: impl Into<Bytes>,
        mut description: v1::DocumentDescription,
        progress: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<v1::Document> {
        let (bytes, progress) = (bytes.into(), Arc::new(progress));
        set_request_id(&mut description.request_id);
        description.size_bytes = bytes.len() as u64;
        let sent = self.repeat(|| {
            let parts = parts(description.clone(), bytes.clone(), Arc::clone(&progress));
            let mut service = self.documents();
            async move { service.upload_document(parts).await }
        });
        present(sent.await?.document)
    }
}

/// Returns the messages of one attempt.
fn parts(
    description: v1::DocumentDescription,
    bytes: Bytes,
    progress: Arc<impl Fn(usize) + Send + Sync + 'static>,
) -> impl Stream<Item = v1::UploadDocumentRequest> + Send + 'static {
    let chunks = (0..bytes.len()).step_by(CHUNK_BYTES).map(move |start| {
        let end = bytes.len().min(start + CHUNK_BYTES);
        progress(end);
        Part::Chunk(bytes.slice(start..end).to_vec())
    });
    let parts = std::iter::once(Part::Description(description)).chain(chunks);
    stream::iter(parts.map(|part| v1::UploadDocumentRequest { part: Some(part) }))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn a_file_is_sent_in_chunks_after_its_description() {
        let content: Vec<u8> = (0..CHUNK_BYTES + 10).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let progress = {
            let seen = Arc::clone(&seen);
            Arc::new(move |sent: usize| seen.lock().unwrap().push(sent))
        };
        let description = v1::DocumentDescription { name: "a.pdf".to_owned(), ..Default::default() };
        let parts: Vec<_> = parts(description.clone(), content.clone().into(), progress).collect().await;
        assert_eq!(parts[0].part, Some(Part::Description(description)));
        let chunks = parts[1..].iter().map(|part| match &part.part {
            Some(Part::Chunk(chunk)) => chunk.as_slice(),
            other => panic!("expected a chunk: {other:?}"),
        });
        assert_eq!(chunks.collect::<Vec<_>>().concat(), content);
        assert_eq!(*seen.lock().unwrap(), [CHUNK_BYTES, CHUNK_BYTES + 10]);
    }

    #[tokio::test]
    async fn an_empty_file_has_no_chunks() {
        let parts = parts(v1::DocumentDescription::default(), Bytes::new(), Arc::new(|_: usize| {}));
        assert_eq!(parts.count().await, 1);
    }
}
