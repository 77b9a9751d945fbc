//! Attempts to read the text of one document and to store the result.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Document, TextState};
use folio_storage::{BlobReader, IngestUpdate, Stores, TextWait};
use folio_types::{DocumentId, Environment, Error, OrgId, Reason, Result};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::{Key, SCAN_LIMIT};
use crate::intake::{self, Report};
use crate::reader::{Reading, TextReader};
use crate::sniff::{has_parts, is_mail};
use crate::upload::{Uploader, hexadecimal};

/// Maximum attempts per job if the store or the machine fails.
const ATTEMPTS_MAX: u32 = 4;
/// Delay after the first failed attempt, doubled after each further one.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Prefix of temporary folders.
pub(crate) const SCRATCH_PREFIX: &str = "folio-read-";

pub(super) struct Ingestion {
    pub(super) stores: Stores,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) reader: TextReader,
    /// Creates documents of the parts of mails and archives.
    pub(super) uploader: Uploader,
}

impl Ingestion {
    /// Removes temporary folders of an earlier process. Only in a configured scratch folder, which this node owns.
    pub(super) fn clear_scratch(&self) {
        let Some(scratch) = &self.reader.options().scratch else { return };
        if let Err(error) = std::fs::create_dir_all(scratch) {
            tracing::warn!(%error, "cannot create the scratch folder");
        }
        for entry in std::fs::read_dir(scratch).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Marks every document that lacked a program as pending.
    pub(super) async fn requeue_for_programs(&self) -> Result<()> {
        let texts = &self.stores.texts;
        let mut before = Vec::new();
        loop {
            let lacking = texts.waiting_texts(TextWait::Program, None, SCAN_LIMIT).await?;
            // Without progress, the remaining rows have no document.
            if lacking.is_empty() || lacking == before {
                return Ok(());
            }
            before.clone_from(&lacking);
            tracing::info!(
                documents = lacking.len(),
                "a program was installed; documents that required it are read again"
            );
            for found in lacking {
                let (state, at) = (TextState::Uploaded, self.environment.now());
                let update = IngestUpdate { state, pages: Vec::new(), lacks_program: false, at };
                texts.ingest(&found.org, &found.id, update).await?;
            }
        }
    }

    pub(super) async fn run(&self, (org, id): &Key, attempts: u32) {
        let mut pause = RETRY_DELAY;
        for fault in 0..ATTEMPTS_MAX {
            match self.attempt(org, id, attempts, fault == 0).await {
                Ok(()) => return,
                Err(error) => {
                    folio_trace::record_error(&tracing::Span::current(), error.reason.as_str());
                    tracing::warn!(%error, document = %id, "cannot read the text of a document; retrying");
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Records that the attempt in progress was cancelled, so that it does not count.
    pub(super) async fn cancel(&self, (org, id): &Key) -> Result<()> {
        match self.stores.of::<Document>().get(org, id).await? {
            Some(document) if document.state == TextState::Processing => {
                self.store(&document, Reading::without_text(TextState::Uploaded)).await
            }
            _ => Ok(()),
        }
    }

    /// Makes one attempt. The store counts it only if `first` is true.
    async fn attempt(&self, org: &OrgId, id: &DocumentId, attempts: u32, first: bool) -> Result<()> {
        let Some(document) = self.stores.of::<Document>().get(org, id).await? else { return Ok(()) };
        if document.state.is_settled() {
            return Ok(());
        }
        if attempts >= self.reader.options().attempts.max(1) {
            let reason = format!("reading the file was interrupted {attempts} times");
            return self.store(&document, Reading::without_text(TextState::Failed(reason))).await;
        }
        if first || document.state == TextState::Uploaded {
            self.store(&document, Reading::without_text(TextState::Processing)).await?;
        }
        let reading = self.read(&document).await?;
        // The upload of a protected PDF stores its text itself, with the password that no attempt has.
        let stored = self.stores.of::<Document>().get(org, id).await?;
        if stored.is_none_or(|stored| stored.state.is_settled()) {
            return Ok(());
        }
        tracing::info!(document = %id, pages = reading.pages.len(), state = state_name(&reading.state), "text read");
        self.store(&document, reading).await
    }

    async fn read(&self, document: &Document) -> Result<Reading> {
        let failed = |reason: &str| Reading::without_text(TextState::Failed(reason.to_owned()));
        let Some(blob) = self.stores.blobs.open(&document.blob_key()).await? else {
            return Ok(failed("the stored file is missing"));
        };
        let folder = tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(self.reader.scratch()).map_err(disk)?;
        let file = folder.path().join("document");
        let sha256 = copy(blob, &file).await?;
        if sha256 != document.sha256 {
            return Ok(failed("the stored file differs from the uploaded file (SHA-256)"));
        }
        let reading = match has_parts(&document.media_type) {
            true => self.read_with_parts(document, &file, folder.path()).await?,
            false => self.reader.read(&document.media_type, &file, folder.path()).await?,
        };
        if let Err(error) = folder.close() {
            tracing::warn!(%error, "cannot remove a temporary folder");
        }
        Ok(reading)
    }

    /// Creates documents of the parts of a mail or an archive, and reads its text. That of an archive is the list of its members.
    async fn read_with_parts(&self, document: &Document, file: &Path, folder: &Path) -> Result<Reading> {
        let report = intake::take_in((&self.uploader, &self.reader), document, (file, folder)).await?;
        let Report { listing, refused, failure } = report;
        let key = (&document.org, &document.id);
        intake::record_refused(&self.stores, self.environment.as_ref(), key, refused).await?;
        match (is_mail(&document.media_type), failure) {
            (true, _) => self.reader.read(&document.media_type, file, folder).await,
            (false, Some(reason)) => Ok(Reading::without_text(TextState::Failed(reason))),
            (false, None) => self.reader.text(&listing).await,
        }
    }

    async fn store(&self, document: &Document, reading: Reading) -> Result<()> {
        let Reading { state, pages, lacks_program } = reading;
        let update = IngestUpdate { state, pages, lacks_program, at: self.environment.now() };
        self.stores.texts.ingest(&document.org, document.id.as_str(), update).await
    }
}

pub(crate) async fn copy(mut blob: Box<dyn BlobReader>, to: &Path) -> Result<String> {
    let mut file = tokio::fs::File::create(to).await.map_err(disk)?;
    let mut hash = Sha256::new();
    while let Some(chunk) = blob.read().await? {
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(disk)?;
    }
    file.flush().await.map_err(disk)?;
    Ok(hexadecimal(&hash.finalize()))
}

pub(crate) fn disk(error: std::io::Error) -> Error {
    Error::unavailable(Reason::StoreUnavailable, format!("cannot write a temporary file: {error}"))
}

fn state_name(state: &TextState) -> &'static str {
    match state {
        TextState::Uploaded => "uploaded",
        TextState::Processing => "processing",
        TextState::Ready => "ready",
        TextState::NoText(_) => "no_text",
        TextState::Failed(_) => "failed",
    }
}
