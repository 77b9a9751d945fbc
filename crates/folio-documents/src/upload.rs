//! Uploads: streamed, bounded, type-checked, and idempotent by request id.
//!
//! The document id is derived from the request, so a repeated upload finds its op row: the same file returns the same
//! document, another file fails with `REQUEST_ID_CONFLICT`. Each upload writes a blob of its own before it writes the
//! document, which names the blob. An upload that creates no document removes its own blob only, so that concurrent
//! uploads under one request id, also in several processes, do not affect each other's bytes.
//!
//! The upload of a protected PDF reads the text itself, in the confined child process, because its password is neither
//! stored nor sent to another process. If the process dies between the document and its text, ingestion reports that the
//! PDF is protected; the repeated upload stores the text.

mod message_image;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use folio_permits::{Permit, Permits};
use folio_quotas::QuotaCache;
use folio_resources::fields::{check_metadata, check_name, check_tags};
use folio_resources::quota::Quotas;
use folio_resources::{Document, DocumentChange, DocumentPart, NewDocument, Resource as _, TextState};
use folio_storage::{BlobWriter, IngestUpdate, Stores};
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Write, WriteOutcome};
use folio_types::{
    BlobId, BlobKey, Code, Digest, DocumentId, Environment, Error, OrgId, Principal, Reason, RequestId, Result, Secret,
    TagId, UserId, limits,
};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::active_uploads::ActiveUploads;
use crate::ingest::IngestHandle;
use crate::ingest::attempts::{SCRATCH_PREFIX, copy, disk};
use crate::options::Options;
use crate::reader::{PASSWORD_FIELD, Reading, TextReader};
use crate::sniff::{Route, SNIFF_BYTES, route, sniff};
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
    /// The password of a protected PDF. None: the file is not protected.
    pub password: Option<Secret>,
    /// True if an agent makes a proposal for the document. A repeated upload keeps the value of the first one.
    pub has_auto_create: bool,
    /// Credits that the model calls of the agent may cost. None: the setting of the server is the only bound. A repeated upload keeps
    /// the value of the first one.
    pub auto_create_budget: Option<u64>,
}

impl NewUpload {
    /// Returns the description of a file without tags, metadata, a declared size, a password and a proposal.
    pub fn new(request_id: RequestId, name: impl Into<String>) -> Self {
        Self {
            request_id,
            name: name.into(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            size: None,
            password: None,
            has_auto_create: false,
            auto_create_budget: None,
        }
    }
}

/// Maximum number of uploads that wait until their protected PDF is read.
const PROTECTED_WAITERS: usize = 64;
/// Maximum time for which an upload waits until its protected PDF is read: the time limit of the child process before it.
const PROTECTED_WAIT: Duration = Duration::from_secs(120);
/// Delay after which a refused upload may be repeated.
const PROTECTED_RETRY: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Uploader {
    stores: Stores,
    environment: Arc<dyn Environment>,
    ingest: Option<IngestHandle>,
    max_bytes: u64,
    active: ActiveUploads,
    quotas: QuotaCache,
    usage: UsageCache,
    /// Reads protected PDFs.
    reader: TextReader,
    /// The permits to read a protected PDF.
    protected: Permits<OrgId>,
}

impl std::fmt::Debug for Uploader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploader").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    pub document: Document,
    /// False if another upload with the same request id and content created the document.
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
        let protected = Permits::leaving_one(options.protected_uploads.max(1), PROTECTED_WAITERS);
        let reader = TextReader::new(options.clone());
        Self { stores, environment, ingest, max_bytes: options.max_bytes, active, quotas, usage, reader, protected }
    }

    /// Sets the default quotas. Without them, only organizations with their own quotas are limited.
    #[must_use]
    pub fn with_quotas(self, quotas: QuotaCache) -> Self {
        Self { quotas, ..self }
    }

    pub fn active_uploads(&self) -> &ActiveUploads {
        &self.active
    }

    /// Submits a stored document to ingestion again, unless it waits for ingestion already.
    ///
    /// # Errors
    /// `UNSUPPORTED_TYPE` if the document is a protected PDF.
    pub async fn read_again(&self, document: &Document) -> Result<()> {
        if document.is_protected {
            let message = "the password of a protected PDF is not stored: upload the document again";
            return Err(Error::precondition(Reason::UnsupportedType, message));
        }
        if !document.state.is_settled() {
            return Ok(());
        }
        let (state, at) = (TextState::Uploaded, self.environment.now());
        let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
        self.stores.texts.ingest(&document.org, document.id.as_str(), update).await?;
        if let Some(ingest) = &self.ingest {
            ingest.submit(&document.org, &document.id).await;
        }
        Ok(())
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Starts an upload.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `TOO_LARGE`; `OVERLOADED` (retriable) if a bound is reached; `QUOTA_EXCEEDED` if the organization's quota of documents or bytes is exhausted.
    pub async fn begin(&self, principal: &Principal, new: NewUpload) -> Result<Upload> {
        check_name("description.name", &new.name)?;
        check_metadata("description.metadata", &new.metadata)?;
        new.password.as_ref().map_or(Ok(()), |password| check_password(password.reveal()))?;
        let tags = check_tags("description.tag_ids", &new.tags)?;
        let id =
            DocumentId::derive(&["upload", principal.org.as_str(), principal.user.as_str(), new.request_id.as_str()]);
        self.start((&principal.org, &principal.user), id, NewUpload { tags, ..new }, None).await
    }

    /// Starts the upload of a document with this id. `part`: None unless the document is a part of another one.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) async fn start(
        &self,
        (org, user): (&OrgId, &UserId),
        id: DocumentId,
        new: NewUpload,
        part: Option<DocumentPart>,
    ) -> Result<Upload> {
        let bytes = new.size.unwrap_or(self.max_bytes);
        if bytes > self.max_bytes {
            return Err(self.too_large("description.size_bytes"));
        }
        let permit = self.active.start(org, bytes)?;
        let available = self.available(org, &id, bytes, new.size).await?;
        let key = BlobKey { org: org.clone(), document: id, blob: BlobId::generate(&*self.environment) };
        let writer = self.stores.blobs.create(&key).await?;
        Ok(Upload {
            uploader: self.clone(),
            user: user.clone(),
            new,
            part,
            key,
            writer,
            media_type: None,
            beginning: BytesMut::new(),
            hash: Sha256::new(),
            size: 0,
            available,
            _permit: permit,
        })
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    pub(crate) fn reader(&self) -> &TextReader {
        &self.reader
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
    /// The user that creates the document.
    user: UserId,
    new: NewUpload,
    part: Option<DocumentPart>,
    key: BlobKey,
    writer: Box<dyn BlobWriter>,
    /// None: too few bytes were received.
    media_type: Option<&'static str>,
    /// The first bytes, until the media type is known.
    beginning: BytesMut,
    hash: Sha256,
    size: u64,
    /// Maximum size by the quotas of the organization, in bytes.
    available: u64,
    _permit: Permit<OrgId>,
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
            return Err(storage_exceeded(self.uploader.quotas.of(&self.key.org).await?, RETRY_MIN));
        }
        if self.media_type.is_none() {
            let missing = SNIFF_BYTES.saturating_sub(self.beginning.len());
            self.beginning.extend_from_slice(chunk.get(..missing).unwrap_or(&chunk));
            if self.beginning.len() >= SNIFF_BYTES {
                self.media_type = Some(sniff(&self.new.name, &self.beginning)?);
            }
        }
        self.hash.update(&chunk);
        self.writer.write(chunk).await
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
            blob: self.key.blob.clone(),
            is_protected: self.new.password.is_some(),
            has_auto_create: self.new.has_auto_create,
            auto_create_budget: self.new.auto_create_budget,
            part: self.part,
            tags: self.new.tags,
            metadata: self.new.metadata,
        };
        let password = self.new.password;
        if password.is_some() && !matches!(route(media_type), Route::Pdf) {
            let problem = format!("only a PDF has a password, the file is {media_type}");
            return Err(Error::invalid_field(PASSWORD_FIELD, problem));
        }
        let Self { uploader, user, key, writer, .. } = self;
        let op = OpKey::Request { user: user.clone(), request: self.new.request_id };
        let digest = digest(&document);
        // A repeated upload with a password stores the text if the first one did not.
        if password.is_none()
            && let Some(row) = uploader.stores.ops.row(&key.org, &Document::target(&key.document), &op).await?
        {
            return uploader.replay(&key, row, &digest).await;
        }
        writer.finish().await?;
        let reading = match &password {
            Some(password) => match uploader.read_protected(&key, password).await {
                Ok(reading) => Some(reading),
                Err(error) => {
                    uploader.remove(&key).await;
                    return Err(error);
                }
            },
            None => None,
        };
        let (org, at, change) = (key.org.clone(), uploader.environment.now(), DocumentChange::Create(document));
        let expected = Expected::Absent;
        let write = Write { org, op, digest: digest.clone(), by: user, at, expected, change };
        let uploaded = match uploader.stores.of::<Document>().decide(&key.document, write).await {
            Ok(WriteOutcome::Row(row)) => uploader.replay(&key, row, &digest).await,
            Ok(WriteOutcome::VersionMismatch) => Err(deleted(&key.document)),
            Err(error) => Err(error),
        };
        match &uploaded {
            Ok(uploaded) if uploaded.created => {
                uploader.usage.add(&key.org, uploaded.document.size).await;
                if let Some(ingest) = uploader.ingest.as_ref().filter(|_| reading.is_none()) {
                    ingest.submit(&key.org, &key.document).await;
                }
            }
            // Another upload of the request created the document.
            Ok(_) => uploader.remove(&key).await,
            Err(error) if is_refusal(error) => uploader.remove(&key).await,
            // The outcome of the write is unknown. The search for orphaned bytes removes the blob if it is unused.
            Err(_) => {}
        }
        match (uploaded, reading) {
            (Ok(uploaded), Some(reading)) => uploader.store_text(uploaded, reading).await,
            (uploaded, _) => uploaded,
        }
    }
}

/// Validates the password of a protected PDF.
fn check_password(password: &str) -> Result<()> {
    if password.is_empty() || password.len() > limits::DOCUMENT_PASSWORD_BYTES || password.contains('\0') {
        let most = limits::DOCUMENT_PASSWORD_BYTES;
        return Err(Error::invalid_field(PASSWORD_FIELD, format!("must have 1 to {most} bytes and no NUL")));
    }
    Ok(())
}

/// Returns true if an error of the write proves that no document with the bytes of the upload exists.
fn is_refusal(error: &Error) -> bool {
    matches!(error.code, Code::InvalidArgument | Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition)
}

impl Uploader {
    /// Waits for a permit to start a child process for a request.
    pub(crate) async fn reader_permit(&self, org: &OrgId) -> Result<Permit<OrgId>> {
        let deadline = Instant::now() + PROTECTED_WAIT;
        self.protected.acquire(org, 1, deadline).await.map_err(|_| {
            Error::exhausted(Reason::Overloaded, "too many files of requests are read").retry_after(PROTECTED_RETRY)
        })
    }

    /// Reads the stored bytes of a protected PDF in a child process.
    async fn read_protected(&self, key: &BlobKey, password: &Secret) -> Result<Reading> {
        let _permit = self.reader_permit(&key.org).await?;
        let blob = self.stores.blobs.open(key).await?.ok_or_else(|| Error::not_found("blob", &key.blob))?;
        let scratch = self.reader.scratch();
        tokio::fs::create_dir_all(&scratch).await.map_err(disk)?;
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(scratch).map_err(disk)?;
        let file = folder.path().join("document");
        copy(blob, &file).await?;
        self.reader.read_protected(&file, folder.path(), password).await
    }

    /// Stores the text of a protected PDF, and returns the document with the new state.
    async fn store_text(&self, uploaded: Uploaded, reading: Reading) -> Result<Uploaded> {
        let Uploaded { document, created } = uploaded;
        if document.state == TextState::Ready {
            return Ok(Uploaded { document, created });
        }
        let Reading { state, pages, lacks_program } = reading;
        let update = IngestUpdate { state, pages, lacks_program, at: self.environment.now() };
        self.stores.texts.ingest(&document.org, document.id.as_str(), update).await?;
        let stored = self.stores.of::<Document>().get(&document.org, &document.id).await?;
        Ok(Uploaded { document: stored.ok_or_else(|| deleted(&document.id))?, created })
    }

    async fn remove(&self, key: &BlobKey) {
        if let Err(error) = self.stores.blobs.delete(key).await {
            tracing::warn!(%error, document = %key.document, "cannot remove the bytes of an upload without a document");
        }
    }

    /// Returns the document that the request created, by this upload or another one.
    async fn replay(&self, key: &BlobKey, row: OpRow, digest: &Digest) -> Result<Uploaded> {
        if row.digest != *digest {
            let message = "this request_id was used for another upload";
            return Err(Error::new(Code::AlreadyExists, Reason::RequestIdConflict, message));
        }
        match row.state {
            OpState::Done(OpResult::Resource { .. }) => {
                let found = self.stores.of::<Document>().get(&key.org, &key.document).await?;
                let document = found.ok_or_else(|| deleted(&key.document))?;
                let created = document.blob == key.blob;
                Ok(Uploaded { document, created })
            }
            _ => Err(deleted(&key.document)),
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
