//! Reading a file as the ingestor does, without a store and with one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use folio_documents::{
    ActiveUploads, Cleaner, CleanupHandle, CleanupOptions, IngestHandle, Ingestor, NewUpload, Options, Reading,
    TextReader, Uploaded, Uploader, WorkerCommand, always_mine, sniff,
};
use folio_resources::Document;
use folio_storage::{SharedOptions, Stores};
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::Simulated;
use folio_types::{DocumentId, OrgId, Principal, Result, Role, UserId};

/// Settings under which the test's own child binary reads, with short limits.
pub(crate) fn options() -> Options {
    Options {
        worker: Some(WorkerCommand { program: PathBuf::from(env!("CARGO_BIN_EXE_folio-read-file")) }),
        child_cpu_seconds: 5,
        child_seconds: 20,
        child_memory_bytes: 1024 * 1024 * 1024,
        ..Options::default()
    }
}

/// Sniffs and reads a file.
pub(crate) async fn read_with(options: Options, name: &str, content: &[u8]) -> Reading {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document");
    std::fs::write(&file, content).unwrap();
    let beginning = &content[..content.len().min(sniff::SNIFF_BYTES)];
    let media_type = sniff::sniff(name, beginning).unwrap();
    TextReader::new(options).read(media_type, &file, folder.path()).await.unwrap()
}

/// Sniffs and reads a file under [`options`].
pub(crate) async fn read(name: &str, content: &[u8]) -> Reading {
    read_with(options(), name, content).await
}

/// The text of all pages.
pub(crate) fn text(reading: &Reading) -> String {
    reading.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// A store in a folder of its own, with a clock that the test moves.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: EmbeddedStore,
    pub(crate) environment: Arc<Simulated>,
    pub(crate) principal: Principal,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let environment = Arc::new(Simulated::new(folio_testkit::seed()));
        let principal = Principal {
            org: OrgId::generate(&*environment),
            user: UserId::generate(&*environment),
            role: Role::Member,
        };
        let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path().join("data"))).unwrap();
        Self { folder, store, environment, principal }
    }

    pub(crate) fn stores(&self) -> Stores {
        self.store.stores()
    }

    /// Sweeps this store, and what is shared in memory.
    pub(crate) fn cleaner(&self, under_way: ActiveUploads, options: CleanupOptions) -> (Cleaner, CleanupHandle) {
        let turns = folio_storage_memory::shared_stores(self.environment.clone(), SharedOptions::default()).turns;
        Cleaner::start(self.stores(), turns, self.environment.clone(), under_way, options, always_mine())
    }

    /// An uploader of files up to 1 MiB.
    pub(crate) fn uploader(&self, ingest: Option<IngestHandle>) -> Uploader {
        self.uploader_within(ingest, &Options { max_bytes: 1024 * 1024, ..options() })
    }

    pub(crate) fn uploader_within(&self, ingest: Option<IngestHandle>, options: &Options) -> Uploader {
        Uploader::new(self.stores(), self.environment.clone(), ingest, options)
    }

    /// An ingestor with these settings.
    pub(crate) fn ingestor(&self, options: Options) -> (Ingestor, IngestHandle) {
        let shared = SharedOptions { jobs_max: options.queue, ..SharedOptions::default() };
        let queue = IngestHandle::to(folio_storage_memory::shared_stores(self.environment.clone(), shared).jobs);
        let reader = TextReader::new(options);
        (Ingestor::start(self.stores(), queue.clone(), self.environment.clone(), reader), queue)
    }

    /// Uploads a file in pieces of 1,000 bytes.
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

    /// Waits until nothing more happens to a document's text.
    pub(crate) async fn settled(&self, id: &DocumentId) -> Document {
        folio_testkit::wait_for("the text is settled", Duration::from_secs(30), || async {
            Some(self.document(id).await).filter(|document| document.state.is_settled())
        })
        .await
    }

    /// The stored bytes, or none.
    pub(crate) async fn bytes(&self, id: &DocumentId) -> Option<Vec<u8>> {
        let mut reader = self.stores().blobs.open(&self.principal.org, id).await.unwrap()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = reader.read().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        Some(bytes)
    }
}

/// An upload without tags and metadata.
pub(crate) fn new_upload(request: &str, name: &str) -> NewUpload {
    NewUpload {
        request_id: request.parse().unwrap(),
        name: name.to_owned(),
        tags: Vec::new(),
        metadata: BTreeMap::new(),
        size: None,
    }
}
