//! Uploads of parts: documents that are made of another document.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use folio_resources::{Document, DocumentPart, Resource as _};
use folio_types::op::OpKey;
use folio_types::{Code, DocumentId, Error, Reason, RequestId, Result, UserId};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use crate::ingest::attempts::disk;
use crate::unpacked::Span;
use crate::upload::{NewUpload, Uploader};

/// Size of the chunks in which a part is stored.
const CHUNK_BYTES: usize = 256 * 1024;
/// Number of attempts to start an upload while the organization has its maximum of active uploads.
const START_ATTEMPTS: u32 = 40;
/// Delay between two attempts to start an upload.
const START_DELAY: Duration = Duration::from_millis(500);

/// A part whose document is created.
#[derive(Debug, Clone)]
pub(crate) struct NewPart {
    /// The id, derived from the parent and the part.
    pub(crate) id: DocumentId,
    /// The user that the document belongs to.
    pub(crate) by: UserId,
    pub(crate) name: String,
    /// The bytes in the file of all parts.
    pub(crate) span: Span,
    pub(crate) part: DocumentPart,
}

/// The outcome of a part.
#[derive(Debug)]
pub(crate) enum PartOutcome {
    Created(Box<Document>),
    /// An earlier attempt created the document, which may be deleted since.
    Existing,
    /// The part cannot become a document.
    Refused(Error),
}

impl Uploader {
    /// Creates the document of a part with the tags of its parent. Repetitions with the same id create one document.
    ///
    /// # Errors
    /// A store or the disk fails, or the organization has its maximum of active uploads for a longer time.
    pub(crate) async fn store_part(&self, parent: &Document, part: NewPart, file: &Path) -> Result<PartOutcome> {
        // Unique, because a user may have only one upload with a request id.
        let request: RequestId = format!("part-{}", part.id).parse()?;
        let op = OpKey::Request { user: part.by.clone(), request: request.clone() };
        if self.stores().ops.row(&parent.org, &Document::target(&part.id), &op).await?.is_some() {
            return Ok(PartOutcome::Existing);
        }
        match self.upload_part(parent, part, request, file).await {
            Ok(outcome) => Ok(outcome),
            Err(error) if error.code == Code::AlreadyExists => Ok(PartOutcome::Existing),
            Err(error) if is_refusal(&error) => Ok(PartOutcome::Refused(error)),
            Err(error) => Err(error),
        }
    }

    async fn upload_part(
        &self,
        parent: &Document,
        new: NewPart,
        request_id: RequestId,
        file: &Path,
    ) -> Result<PartOutcome> {
        let NewPart { id, by, name, span, part } = new;
        let description = NewUpload {
            request_id,
            name,
            tags: parent.tags.clone(),
            metadata: Default::default(),
            size: Some(span.size),
            password: None,
            // A budget bounds one proposal.
            has_auto_create: parent.has_auto_create && parent.auto_create_budget.is_none(),
            auto_create_budget: None,
        };
        let mut attempts = 0;
        let mut upload = loop {
            let started = self.start((&parent.org, &by), id.clone(), description.clone(), Some(part.clone())).await;
            match started {
                Err(error) if error.reason == Reason::Overloaded && attempts < START_ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(START_DELAY).await;
                }
                started => break started?,
            }
        };
        let mut content = File::open(file).await.map_err(disk)?;
        content.seek(std::io::SeekFrom::Start(span.start)).await.map_err(disk)?;
        let mut content = content.take(span.size);
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            (&mut content).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await.map_err(disk)?;
            if chunk.is_empty() {
                break;
            }
            upload.write(Bytes::from(chunk)).await?;
        }
        Ok(PartOutcome::Created(Box::new(upload.finish().await?.document)))
    }
}

/// Returns true if a repetition of the upload cannot succeed before a person changes something.
fn is_refusal(error: &Error) -> bool {
    error.reason == Reason::QuotaExceeded || matches!(error.code, Code::InvalidArgument | Code::NotFound)
}
