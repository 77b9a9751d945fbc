//! Fixtures for reading a file with and without a store.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use folio_documents::{
    Cleaner, CleanupHandle, CleanupOptions, IngestHandle, Ingestor, NewUpload, Options, Reading, TextReader, Uploaded,
    Uploader, always_sweeper, sniff,
};
use folio_resources::{Document, Resource};
use folio_storage::value::DeletionRow;
use folio_storage::{SharedOptions, Stores};
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::Simulated;
use folio_types::{BlobKey, DocumentId, OrgId, Principal, Result, Role, Timestamp, UserId};

/// The header of a PNG image of one pixel, without the pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

pub(crate) const SLOW: &str = "exec sleep 600";

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Writes a program that replaces Tesseract or the child.
pub(crate) fn script(path: &Path, body: &str) {
    program(path, &format!("#!/bin/sh\n{body}\n"));
}

/// Writes a program that replaces Tesseract. Its function `say` prints a line in Tesseract's TSV format. Only commands of the
/// shell print, because the program cannot start processes.
pub(crate) fn recognizer(path: &Path, body: &str) {
    let say = r#"row() { rows=$((rows + 1)); printf '5\t1\t1\t1\t%s\t1\t0\t%s\t9\t9\t96\t' "$rows" "$rows"; }
say() { row; echo "$*"; }"#;
    program(path, &format!("#!/bin/bash\n{say}\n{body}\n"));
}

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Settings for the child binary of the test, with short limits.
pub(crate) fn options() -> Options {
    Options {
        worker: Some(PathBuf::from(env!("CARGO_BIN_EXE_folio-read-file"))),
        child_cpu_seconds: 5,
        child_seconds: 20,
        child_memory_bytes: 512 * 1024 * 1024,
        ..Options::default()
    }
}

pub(crate) async fn read_with(options: Options, name: &str, content: &[u8]) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    std::fs::write(&file, content).unwrap();
    let beginning = &content[..content.len().min(sniff::SNIFF_BYTES)];
    let media_type = sniff::sniff(name, beginning).unwrap();
    TextReader::new(options).read(media_type, &file, folder.path()).await.unwrap()
}

pub(crate) async fn read(name: &str, content: &[u8]) -> Reading {
    read_with(options(), name, content).await
}

pub(crate) fn text(reading: &Reading) -> String {
    reading.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// A store in a temporary folder, with a simulated clock.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: EmbeddedStore,
    pub(crate) environment: Arc<Simulated>,
    pub(crate) principal: Principal,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Arc::new(Simulated::new(folio_testkit::seed()));
        let (org, user) = (OrgId::generate(&*environment), UserId::generate(&*environment));
        let principal = Principal::new(org, user, Role::Member);
        let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path().join("data"))).unwrap();
        Self { folder, store, environment, principal }
    }

    pub(crate) fn stores(&self) -> Stores {
        self.store.stores()
    }

    /// Starts a cleaner of the stores that sweeps once an hour.
    pub(crate) fn cleaner(&self) -> (Cleaner, CleanupHandle) {
        self.cleaner_of(self.stores())
    }

    pub(crate) fn cleaner_of(&self, stores: Stores) -> (Cleaner, CleanupHandle) {
        let options =
            CleanupOptions { interval_seconds: 3_600, orphan_interval_seconds: 3_600, ..CleanupOptions::default() };
        let turns = folio_storage_memory::shared_stores(self.environment.clone(), SharedOptions::default()).turns;
        Cleaner::start(stores, turns, self.environment.clone(), options, always_sweeper())
    }

    /// The uploader accepts files up to 1 MiB.
    pub(crate) fn uploader(&self, ingest: Option<IngestHandle>) -> Uploader {
        self.uploader_within(ingest, &Options { max_bytes: 1024 * 1024, ..options() })
    }

    pub(crate) fn uploader_within(&self, ingest: Option<IngestHandle>, options: &Options) -> Uploader {
        Uploader::new(self.stores(), self.environment.clone(), ingest, options)
    }

    pub(crate) fn queue(&self, options: &Options) -> IngestHandle {
        let shared = SharedOptions { jobs_max: options.queue, ..SharedOptions::default() };
        IngestHandle::new(folio_storage_memory::shared_stores(self.environment.clone(), shared).jobs)
    }

    pub(crate) fn start(&self, queue: IngestHandle, options: Options) -> Ingestor {
        let uploader = self.uploader_within(Some(queue.clone()), &options);
        Ingestor::start(self.stores(), queue, self.environment.clone(), TextReader::new(options), uploader)
    }

    pub(crate) fn ingestor(&self, options: Options) -> (Ingestor, IngestHandle) {
        let queue = self.queue(&options);
        (self.start(queue.clone(), options), queue)
    }

    /// Uploads a file in chunks of 1,000 bytes.
    pub(crate) async fn upload(
        &self,
        uploader: &Uploader,
        request: &str,
        name: &str,
        content: &[u8],
    ) -> Result<Uploaded> {
        let mut upload = uploader.begin(&self.principal, new_upload(request, name)).await?;
        for chunk in content.chunks(1_000) {
            upload.write(Bytes::copy_from_slice(chunk)).await?;
        }
        upload.finish().await
    }

    pub(crate) async fn document(&self, id: &DocumentId) -> Document {
        self.stores().of::<Document>().get(&self.principal.org, id).await.unwrap().unwrap()
    }

    /// Returns the first rows of the index of deletions.
    pub(crate) async fn deletions<R: Resource>(&self) -> Vec<DeletionRow> {
        self.stores().of::<R>().indexed_deletions(&(Timestamp::MIN..=Timestamp::MAX), None, 10).await.unwrap()
    }

    /// Uploads a file before any ingestion runs.
    pub(crate) async fn stored(&self, request: &str, name: &str, content: &[u8]) -> DocumentId {
        self.upload(&self.uploader(None), request, name, content).await.unwrap().document.id
    }

    /// Stores a blob, or replaces its bytes.
    pub(crate) async fn store_blob(&self, key: &BlobKey, content: &'static [u8]) {
        let mut writer = self.stores().blobs.create(key).await.unwrap();
        writer.write(Bytes::from_static(content)).await.unwrap();
        writer.finish().await.unwrap();
    }

    /// Waits until the state of a document's text is final.
    pub(crate) async fn settled(&self, id: &DocumentId) -> Document {
        folio_testkit::wait_for("the text is settled", SOON, || async {
            Some(self.document(id).await).filter(|document| document.state.is_settled())
        })
        .await
    }

    /// None: no bytes are stored.
    pub(crate) async fn bytes(&self, key: &BlobKey) -> Option<Vec<u8>> {
        let mut reader = self.stores().blobs.open(key).await.unwrap()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.read().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        Some(bytes)
    }
}

pub(crate) fn new_upload(request: &str, name: &str) -> NewUpload {
    NewUpload::new(request.parse().unwrap(), name)
}
