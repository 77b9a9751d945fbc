//! Uploads of parts: documents that are made of another document.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use folio_resources::{Document, DocumentPart, Resource as _};
use folio_types::op::{OpKey, OpState};
use folio_types::{Code, DocumentId, Error, OrgId, Reason, RequestId, Result, UserId};
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

/// Maximum number of requests that try to create the document of a part. A request whose write failed is closed by the store, and
/// can create nothing afterwards.
const REQUESTS_MAX: u32 = 8;

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
    /// The parent was deleted. Nothing was created.
    ParentDeleted,
}

impl Uploader {
    /// Creates the document of a part with the current tags of its parent. Repetitions with the same id create one document:
    /// every request of the part expects that the document is absent.
    ///
    /// # Errors
    /// A store or the disk fails, or the organization has its maximum of active uploads for a longer time.
    pub(crate) async fn store_part(&self, parent: &Document, part: NewPart, file: &Path) -> Result<PartOutcome> {
        let mut first = 1;
        loop {
            let (number, request) = match self.open_request(&parent.org, &part, first).await {
                Ok(Some(open)) => open,
                Ok(None) => return Ok(PartOutcome::Existing),
                // The other parts do not depend on this one.
                Err(error) if error.reason == Reason::VersionConflict => return Ok(PartOutcome::Refused(error)),
                Err(error) => return Err(error),
            };
            let Some(parent) = self.stores().of::<Document>().get(&parent.org, &parent.id).await? else {
                return Ok(PartOutcome::ParentDeleted);
            };
            let error = match self.upload_part(&parent, part.clone(), request, file).await {
                Ok(outcome) => return Ok(outcome),
                Err(error) => error,
            };
            // Another attempt may have created the document meanwhile.
            if matches!(error.code, Code::AlreadyExists | Code::NotFound) && self.is_created(&parent.org, &part).await?
            {
                return Ok(PartOutcome::Existing);
            }
            match error.code {
                // An attempt with other tags of the parent has the request.
                Code::AlreadyExists => first = number.saturating_add(1),
                _ if is_refusal(&error) => return Ok(PartOutcome::Refused(error)),
                _ => return Err(error),
            }
        }
    }

    /// Returns the first request from number `first` on that is not closed. None: a request created the document, which may be
    /// deleted since.
    ///
    /// # Errors
    /// `VERSION_CONFLICT` if every request is closed.
    async fn open_request(&self, org: &OrgId, part: &NewPart, first: u32) -> Result<Option<(u32, RequestId)>> {
        for number in first..=REQUESTS_MAX {
            match self.op_state(org, part, number).await? {
                Some(OpState::Done(_)) => return Ok(None),
                Some(OpState::Conflict | OpState::Aborted) => {}
                None => return Ok(Some((number, request_of(&part.id, number)?))),
            }
        }
        let message = format!("{REQUESTS_MAX} attempts to create the document failed; upload the part");
        Err(Error::version_conflict(message))
    }

    /// Returns true if a request created the document, which may be deleted since.
    async fn is_created(&self, org: &OrgId, part: &NewPart) -> Result<bool> {
        for number in 1..=REQUESTS_MAX {
            if matches!(self.op_state(org, part, number).await?, Some(OpState::Done(_))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn op_state(&self, org: &OrgId, part: &NewPart, number: u32) -> Result<Option<OpState>> {
        let op = OpKey::Request { user: part.by.clone(), request: request_of(&part.id, number)? };
        let row = self.stores().ops.row(org, &Document::target(&part.id), &op).await?;
        Ok(row.map(|row| row.state))
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

/// Returns the id of a request of a part. It contains the id of the part, because a user may have only one upload with a request id.
fn request_of(part: &DocumentId, number: u32) -> Result<RequestId> {
    match number {
        1 => format!("part-{part}").parse(),
        number => format!("part-{part}-{number}").parse(),
    }
}

/// Returns true if a repetition of the upload cannot succeed before a person changes something.
fn is_refusal(error: &Error) -> bool {
    error.reason == Reason::QuotaExceeded || matches!(error.code, Code::InvalidArgument | Code::NotFound)
}
