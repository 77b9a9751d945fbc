//! Renders images of pages in a child process, and stores them as blobs of their documents.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use folio_permits::{Amount, Bounds, Permits};
use folio_resources::{Document, ImageFormat, PageImage};
use folio_storage::Stores;
use folio_types::{BlobKey, DocumentId, Environment, Error, OrgId, Reason, Result};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::time::Instant;

use crate::ingest::attempts::{SCRATCH_PREFIX, copy, disk};
use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::memory;
use crate::options::Options;
use crate::reader;
use crate::sniff::{Route, route};
use crate::worker::{Job, Line, Task};

/// Maximum number of requests that wait.
const WAITERS: usize = 256;
/// Maximum time for which a request waits.
const WAIT: Duration = Duration::from_secs(20);
/// Delay after which a refused request may be repeated.
const RETRY_SOON: Duration = Duration::from_millis(500);
/// Maximum size of an image in bytes.
const IMAGE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum length of the first line of a child's output.
const LINE_BYTES: u64 = 4 * 1024;
/// Size of the parts in which an image is written to the blob store.
const CHUNK_BYTES: usize = 256 * 1024;

/// Renders images of pages. Cheap to clone; clones share the permits.
///
/// The blob store is a cache: the clean-up removes an image a day after it was rendered, and the next request renders it again.
#[derive(Clone)]
pub struct PageRenderer {
    stores: Stores,
    environment: Arc<dyn Environment>,
    options: Arc<Options>,
    permits: Permits<OrgId>,
}

impl std::fmt::Debug for PageRenderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PageRenderer")
    }
}

impl PageRenderer {
    pub fn new(stores: Stores, environment: Arc<dyn Environment>, options: Options) -> Self {
        let total = Amount::permits(options.page_images.max(1));
        let permits = Permits::new(Bounds { total, per_key: Amount::UNBOUNDED, waiters: WAITERS });
        let options = Options { child_memory_bytes: memory::child_bytes(&options, memory::limit()), ..options };
        Self { stores, environment, options: Arc::new(options), permits }
    }

    /// Returns the number of images that are rendered now.
    pub fn running(&self) -> usize {
        self.permits.load().permits
    }

    /// Renders an image of a page and stores it under [`PageImage::blob`], unless it is stored already.
    ///
    /// # Errors
    /// `NOT_FOUND` if the document does not exist, `UNSUPPORTED_TYPE` if it has no pages to render, `INVALID_FIELD` of `page` if
    /// the page cannot be rendered, `OVERLOADED` if too many images are rendered.
    pub async fn render(&self, org: &OrgId, id: &DocumentId, image: &PageImage) -> Result<()> {
        let document = self.document(org, id).await?;
        let job = self.job(&document.media_type, image)?;
        let _permit = self.permits.acquire(org, 1, Instant::now() + WAIT).await.map_err(|_| {
            Error::exhausted(Reason::Overloaded, "too many page images are rendered").retry_after(RETRY_SOON)
        })?;
        let key = BlobKey { org: org.clone(), document: id.clone(), blob: image.blob() };
        // Another request may have rendered the image meanwhile.
        if self.stores.blobs.open(&key).await?.is_some() {
            return Ok(());
        }
        let folder =
            tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(self.options.scratch()).map_err(disk)?;
        let rendered = self.run(&document, job, folder.path()).await?;
        self.store(&key, rendered).await
    }

    async fn document(&self, org: &OrgId, id: &DocumentId) -> Result<Document> {
        self.stores.of::<Document>().get(org, id).await?.ok_or_else(|| Error::not_found("document", id))
    }

    fn job(&self, media_type: &str, image: &PageImage) -> Result<Job> {
        let is_pdf = match route(media_type) {
            Route::Pdf => true,
            Route::Image | Route::Tiff => false,
            Route::Text | Route::Office | Route::None => {
                let message = format!("Folio renders pages of PDF, PNG, JPEG and TIFF files, and not of {media_type}");
                return Err(Error::precondition(Reason::UnsupportedType, message));
            }
        };
        if image.page() > self.options.max_pages {
            return Err(cannot_render(format!("a document has at most {} pages", self.options.max_pages)));
        }
        let is_webp = image.format() == ImageFormat::WebP;
        Ok(Job::Image { is_pdf, page: image.page(), dpi: image.dpi(), is_webp })
    }

    /// Runs the child process. Returns the file with the image, after its first line.
    async fn run(&self, document: &Document, job: Job, folder: &Path) -> Result<BufReader<File>> {
        let blob = self.stores.blobs.open(&document.blob_key()).await?;
        let blob = blob.ok_or_else(|| Error::not_found("document", &document.id))?;
        let [input, output] = ["document", "image"].map(|name| folder.join(name));
        copy(blob, &input).await?;
        let children = ChildProcesses::new(self.options.worker.clone(), folder.to_owned());
        let task = Task {
            cpu_seconds: self.options.page_image_seconds,
            file_bytes: IMAGE_BYTES,
            ..reader::task(&self.options, job)
        };
        let files = Files { input: Some(&input), output: Some(&output), password: None };
        match children.run(&task, files, self.options.page_image_timeout(), 0).await {
            Ok(_) => {}
            Err(error @ ChildError::Start(_)) => {
                return Err(Error::unavailable(Reason::Overloaded, error.to_string()));
            }
            Err(error) => return Err(cannot_render(error.to_string())),
        }
        let mut output = BufReader::new(File::open(&output).await.map_err(disk)?);
        let mut line = Vec::new();
        (&mut output).take(LINE_BYTES).read_until(b'\n', &mut line).await.map_err(disk)?;
        match serde_json::from_slice(&line) {
            Ok(Line::Image) => Ok(output),
            Ok(Line::Refused { reason }) => Err(cannot_render(reason)),
            _ => Err(cannot_render("the process that renders pages failed")),
        }
    }

    /// Stores an image. Its size is stored first, so that no image is missing in the sum.
    async fn store(&self, key: &BlobKey, mut image: impl AsyncRead + Unpin) -> Result<()> {
        let (documents, now) = (self.stores.of::<Document>(), self.environment.now());
        let mut writer = self.stores.blobs.create(key).await?;
        let mut bytes = 0;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = (&mut image).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await.map_err(disk)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            writer.write(Bytes::from(chunk)).await?;
        }
        documents.set_blob_bytes(&key.org, &key.document, &key.blob, bytes, now).await?;
        writer.finish().await?;
        // A deletion of the document meanwhile may have removed its blobs before this one was visible.
        if documents.get(&key.org, &key.document).await?.is_none() {
            self.stores.blobs.delete(key).await?;
            return Err(Error::not_found("document", &key.document));
        }
        Ok(())
    }
}

fn cannot_render(reason: impl std::fmt::Display) -> Error {
    Error::invalid_field("page", format!("the page cannot be rendered: {reason}"))
}
