//! `UploadDocument`: a description, then bytes.

use std::time::Duration;

use folio_documents::{NewUpload, Upload};
use folio_proto::{fields, status, v1};
use folio_types::document::Document;
use folio_types::{Code, Error, Principal, Reason, RequestId, Result};
use tokio::time::{Instant, timeout_at};
use tonic::Streaming;
use v1::upload_document_request::Part;

use super::Api;

/// Bytes of one chunk.
const CHUNK_BYTES: usize = 1024 * 1024;

/// The parts of an upload as they come, within the limits of transfers.
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
}

impl Api {
    pub(super) async fn upload(
        &self,
        principal: &Principal,
        stream: Streaming<v1::UploadDocumentRequest>,
    ) -> Result<Document> {
        let limits = self.transfer_limits();
        let mut parts = Parts { stream, idle: limits.idle, end: Instant::now() + limits.lifetime };
        let description = match parts.next().await? {
            Some(Part::Description(description)) => description,
            _ => return Err(Error::invalid_field("description", "comes first")),
        };
        let said = description.size_bytes;
        let most = self.gateway.uploader.max_bytes();
        if said > most {
            let problem = format!("a document has at most {most} bytes");
            return Err(Error::invalid_field("description.size_bytes", problem).because(Reason::TooLarge));
        }
        let mut upload = self.gateway.uploader.begin(principal, self.new_upload(description)?).await?;
        take(&mut upload, &mut parts).await?;
        Ok(upload.finish().await?.document)
    }

    fn new_upload(&self, description: v1::DocumentDescription) -> Result<NewUpload> {
        let request: Option<RequestId> = fields::optional_id("description.request_id", &description.request_id)?;
        Ok(NewUpload {
            request_id: request.unwrap_or_else(|| RequestId::generate(self.gateway.environment.as_ref())),
            tags: fields::tags("description.tag_ids", &description.tag_ids)?,
            // 0: it was not said.
            size: Some(description.size_bytes).filter(|bytes| *bytes > 0),
            name: description.name,
            metadata: description.metadata,
        })
    }
}

/// Takes all bytes.
async fn take(upload: &mut Upload, parts: &mut Parts) -> Result<()> {
    while let Some(part) = parts.next().await? {
        let Part::Chunk(chunk) = part else {
            return Err(Error::invalid_field("description", "comes once, at the beginning"));
        };
        if chunk.len() > CHUNK_BYTES {
            let problem = format!("more than {CHUNK_BYTES} bytes in one message");
            return Err(Error::invalid_field("chunk", problem).because(Reason::TooLarge));
        }
        upload.write(chunk.into()).await?;
    }
    Ok(())
}
