//! The stream of `UploadDocument`: a description, then bytes.

use std::time::Duration;

use bytes::Bytes;
use folio_operations::Call;
use folio_operations::documents::{Content, UploadDocument};
use folio_proto::{fields, status, v1};
use folio_types::{Code, Error, Reason, Result, Secret};
use futures::Stream;
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;
use v1::upload_document_request::Part;

use super::Api;

// proto: UploadDocumentRequest.chunk "at most {} MiB"
const CHUNK_BYTES: usize = 1024 * 1024;

/// The messages of an upload, within the limits of transfers.
struct Parts {
    stream: Streaming<v1::UploadDocumentRequest>,
    idle: Duration,
    end: Instant,
}

impl Parts {
    async fn next(&mut self) -> Result<Option<Part>> {
        let until = self.end.min(Instant::now() + self.idle);
        match timeout_at(until, self.stream.message()).await {
            Err(_) => {
                Err(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, "the upload was silent for too long"))
            }
            Ok(Err(status)) => Err(status::of_transport(&status)),
            Ok(Ok(None)) => Ok(None),
            Ok(Ok(Some(request))) => fields::required("part", request.part).map(Some),
        }
    }

    /// The bytes after the description. Error: a second description, or a chunk that is too large.
    fn chunks(self) -> impl Stream<Item = Result<Bytes>> {
        futures::stream::try_unfold(self, |mut parts| async move {
            match parts.next().await? {
                None => Ok(None),
                Some(Part::Description(_)) => {
                    Err(Error::invalid_field("description", "must be the first message only"))
                }
                Some(Part::Chunk(chunk)) if chunk.len() > CHUNK_BYTES => {
                    let problem = format!("has more than {CHUNK_BYTES} bytes in one message");
                    Err(Error::invalid_field("chunk", problem).with_reason(Reason::TooLarge))
                }
                Some(Part::Chunk(chunk)) => Ok(Some((Bytes::from(chunk), parts))),
            }
        })
    }
}

impl Api {
    /// Reads the description of an upload. The operation reads the chunks.
    pub(super) async fn upload(&self, stream: Streaming<v1::UploadDocumentRequest>) -> Result<Call<UploadDocument>> {
        let limits = self.transfer_limits();
        let mut parts = Parts { stream, idle: limits.idle_timeout, end: Instant::now() + limits.max_lifetime };
        let Some(Part::Description(description)) = parts.next().await? else {
            return Err(Error::invalid_field("description", "must be the first message"));
        };
        let operation = UploadDocument {
            name: description.name,
            tag_ids: fields::tags("description.tag_ids", &description.tag_ids)?,
            metadata: description.metadata,
            size_bytes: Some(description.size_bytes).filter(|bytes| *bytes > 0),
            password: Some(description.password.as_str()).filter(|password| !password.is_empty()).map(Secret::new),
            auto_create: description.auto_create,
            credit_budget: description.credit_budget,
            content: Content::new(parts.chunks()),
        };
        let request_id = fields::optional_id("description.request_id", &description.request_id)?;
        Ok(Call::with_request_id(request_id, operation))
    }
}
