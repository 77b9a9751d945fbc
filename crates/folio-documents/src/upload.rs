//! Uploads: streamed, bounded, type-checked, and idempotent by request id.
//!
//! The document id is derived from the request, so a repeated upload finds its op row: the same file returns the same
//! document, another file fails with `REQUEST_ID_CONFLICT`. The bytes become visible before the write of the document,
//! and are removed if that write is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use folio_quotas::QuotaCache;
use folio_resources::fields::{check_metadata, check_name, check_tags};
use folio_resources::quota::Quotas;
use folio_resources::{Document, DocumentChange, NewDocument, Resource as _};
use folio_storage::{BlobWriter, Stores};
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Write, WriteOutcome};
use folio_types::{Code, Digest, DocumentId, Environment, Error, OrgId, Principal, Reason, RequestId, Result, TagId};
use sha2::{Digest as _, Sha256};

use crate::active_uploads::{ActiveUploads, UploadGuard};
use crate::ingest::IngestHandle;
use crate::options::Options;
use crate::sniff::{SNIFF_BYTES, sniff};
use crate::usage_cache::{RETRY_MIN, UsageCache, storage_exceeded};

/// The description of a file, received before its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUpload {
    pub request_id: RequestId,
    pub name: String,
    /// Tags of the document, which must exist.
    pub tags: Vec<TagId>,
    pub metadata: BTreeMap<String, String>,
    /// Declared size in bytes. None: the upload counts with the maximum size.
    pub size: Option<u64>,
}

#[derive(Clone)]
pub struct Uploader {
    stores: Stores,
    environment: Arc<dyn Environment>,
    ingest: Option<IngestHandle>,
    max_bytes: u64,
    active: ActiveUploads,
    quotas: QuotaCache,
    usage: UsageCache,
}

impl std::fmt::Debug for Uploader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploader").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    pub document: Document,
    /// False if an earlier request with the same id and content created the document.
    pub created: bool,
}

impl Uploader {
    /// New documents are submitted to `ingest`. None: another process ingests them.
    pub fn new(
        stores: Stores,
        environment: Arc<dyn Environment>,
        ingest: Option<IngestHandle>,
        options: &Options,
    ) -> Self {
        let active = ActiveUploads::new(options);
        let quotas = QuotaCache::new(stores.of(), Quotas::default());
        let usage = UsageCache::new(stores.of::<Document>());
        Self { stores, environment, ingest, max_bytes: options.max_bytes, active, quotas, usage }
    }

    /// Sets the default quotas. Without them, only organizations with their own quotas are limited.
    #[must_use]
    pub fn with_quotas(self, quotas: QuotaCache) -> Self {
        Self { quotas, ..self }
    }

    pub fn active_uploads(&self) -> &ActiveUploads {
        &self.active
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Starts an upload.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `TOO_LARGE`; `OVERLOADED` (retriable) if an upload with the same request id is active or a
    /// bound is reached; `QUOTA_EXCEEDED` if the organization's quota of documents or bytes is exhausted.
    pub async fn begin(&self, principal: &Principal, new: NewUpload) -> Result<Upload> {
        check_name("description.name", &new.name)?;
        check_metadata("description.metadata", &new.metadata)?;
        let tags = check_tags("description.tag_ids", &new.tags)?;
        let id =
            DocumentId::derive(&["upload", principal.org.as_str(), principal.user.as_str(), new.request_id.as_str()]);
        let bytes = new.size.unwrap_or(self.max_bytes);
        if bytes > self.max_bytes {
            return Err(self.too_large("description.size_bytes"));
        }
        let guard = self.active.start(&principal.org, &id, bytes)?;
        let available = self.available(&principal.org, &id, bytes, new.size).await?;
        let blob = self.stores.blobs.create(&principal.org, &id).await?;
        Ok(Upload {
            uploader: self.clone(),
            principal: principal.clone(),
            new: NewUpload { tags, ..new },
            id,
            blob,
            media_type: None,
            beginning: BytesMut::new(),
            hash: Sha256::new(),
            size: 0,
            available,
            _guard: guard,
        })
    }

    /// Returns the maximum size of an upload by the organization's quotas. A repeated upload whose document is already
    /// stored is not bounded.
    async fn available(&self, org: &OrgId, id: &DocumentId, bytes: u64, declared: Option<u64>) -> Result<u64> {
        let quotas = self.quotas.of(org).await?;
        let available = self.usage.available(org, quotas, self.active.load_of(org), bytes).await;
        let available = match (available, declared) {
            (Ok(available), Some(declared)) if declared > available => Err(storage_exceeded(quotas, RETRY_MIN)),
            (available, _) => available,
        };
        match available {
            Err(error) if error.reason == Reason::QuotaExceeded => {
                match self.stores.of::<Document>().get(org, id).await? {
                    Some(_) => Ok(u64::MAX),
                    None => Err(error),
                }
            }
            available => available,
        }
    }

    fn too_large(&self, field: &str) -> Error {
        Error::invalid_field(field, format!("a document has at most {} bytes", self.max_bytes))
            .with_reason(Reason::TooLarge)
    }
}

/// An active upload. Dropping it before `finish` removes its bytes.
pub struct Upload {
    uploader: Uploader,
    principal: Principal,
    new: NewUpload,
    id: DocumentId,
    blob: Box<dyn BlobWriter>,
    /// None: too few bytes were received.
    media_type: Option<&'static str>,
    /// The first bytes, until the media type is known.
    beginning: BytesMut,
    hash: Sha256,
    size: u64,
    /// Maximum size by the quotas of the organization, in bytes.
    available: u64,
    _guard: UploadGuard,
}

impl Upload {
    /// # Errors
    /// `TOO_LARGE`, `QUOTA_EXCEEDED`, `UNSUPPORTED_TYPE`; `INVALID_FIELD` beyond the declared size.
    pub async fn write(&mut self, chunk: Bytes) -> Result<()> {
        self.size = self.size.saturating_add(chunk.len() as u64);
        if self.size > self.uploader.max_bytes {
            return Err(self.uploader.too_large("chunk"));
        }
        if let Some(declared) = self.new.size.filter(|declared| self.size > *declared) {
            return Err(Error::invalid_field(
                "description.size_bytes",
                format!("received more than the declared {declared} bytes"),
            ));
        }
        if self.size > self.available {
            return Err(storage_exceeded(self.uploader.quotas.of(&self.principal.org).await?, RETRY_MIN));
        }
        if self.media_type.is_none() {
            let missing = SNIFF_BYTES.saturating_sub(self.beginning.len());
            self.beginning.extend_from_slice(chunk.get(..missing).unwrap_or(&chunk));
            if self.beginning.len() >= SNIFF_BYTES {
                self.media_type = Some(sniff(&self.new.name, &self.beginning)?);
            }
        }
        self.hash.update(&chunk);
        self.blob.write(chunk).await
    }

    /// Writes the document after the last chunk. After an error of the store, the same request may be repeated.
    ///
    /// # Errors
    /// `UNSUPPORTED_TYPE`, `NOT_FOUND` (a tag), `REQUEST_ID_CONFLICT`; `INVALID_FIELD` for an empty file, or if the
    /// size differs from the declared size.
    pub async fn finish(self) -> Result<Uploaded> {
        if let Some(declared) = self.new.size.filter(|declared| self.size != *declared) {
            let problem = format!("received {} bytes, expected the declared {declared} bytes", self.size);
            return Err(Error::invalid_field("description.size_bytes", problem));
        }
        let media_type = match self.media_type {
            Some(media_type) => media_type,
            None => sniff(&self.new.name, &self.beginning)?,
        };
        let document = NewDocument {
            name: self.new.name,
            media_type: media_type.to_owned(),
            size: self.size,
            sha256: hexadecimal(&self.hash.finalize()),
            tags: self.new.tags,
            metadata: self.new.metadata,
        };
        let Self { uploader, principal, id, blob, .. } = self;
        let Principal { org, user, .. } = principal;
        let op = OpKey::Request { user: user.clone(), request: self.new.request_id };
        let (digest, target) = (digest(&document), Document::target(&id));
        if let Some(row) = uploader.stores.ops.row(&org, &target, &op).await? {
            return uploader.replay(&org, &id, row, &digest).await;
        }
        blob.finish().await?;
        let (at, expected, change) = (uploader.environment.now(), Expected::Absent, DocumentChange::Create(document));
        let write = Write { org: org.clone(), op, digest: digest.clone(), by: user, at, expected, change };
        match uploader.stores.of::<Document>().decide(&id, write).await {
            Ok(WriteOutcome::Row(row)) => {
                let mut uploaded = uploader.replay(&org, &id, row, &digest).await?;
                uploaded.created = true;
                uploader.usage.add(&org, uploaded.document.size).await;
                if let Some(ingest) = &uploader.ingest {
                    ingest.submit(&org, &id).await;
                }
                Ok(uploaded)
            }
            Ok(WriteOutcome::VersionMismatch) => Err(deleted(&id)),
            Err(error) => {
                uploader.remove_bytes_of_refused(&org, &id, &error).await;
                Err(error)
            }
        }
    }
}

impl Uploader {
    /// Removes the bytes of a refused document. If the outcome of the write is unknown, the bytes stay, because the
    /// repeated request writes them again.
    async fn remove_bytes_of_refused(&self, org: &OrgId, id: &DocumentId, refused: &Error) {
        if matches!(refused.code, Code::Unavailable | Code::DeadlineExceeded | Code::Internal) {
            return;
        }
        if let Err(error) = self.stores.blobs.delete(org, id).await {
            tracing::warn!(%error, document = %id, "cannot remove the bytes of a refused upload");
        }
    }

    async fn replay(&self, org: &OrgId, id: &DocumentId, row: OpRow, digest: &Digest) -> Result<Uploaded> {
        if row.digest != *digest {
            let message = "this request_id was used for another upload";
            return Err(Error::new(Code::AlreadyExists, Reason::RequestIdConflict, message));
        }
        match row.state {
            OpState::Done(OpResult::Resource { .. }) => {
                let found = self.stores.of::<Document>().get(org, id).await?;
                let document = found.ok_or_else(|| deleted(id))?;
                Ok(Uploaded { document, created: false })
            }
            _ => Err(deleted(id)),
        }
    }
}

fn deleted(id: &DocumentId) -> Error {
    Error::not_found("document of this request_id", id)
}

fn digest(document: &NewDocument) -> Digest {
    Digest::of_json(&serde_json::json!({
        "upload": document.name,
        "size": document.size,
        "sha256": document.sha256,
        "tags": document.tags,
        "metadata": document.metadata,
    }))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
