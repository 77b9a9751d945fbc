//! Makes renditions of documents, and stores them as blobs of their documents: images of pages, and PDF files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use folio_permits::{Permit, Permits};
use folio_resources::{Document, ImageFormat, PageImage, Rendition, TextState};
use folio_storage::Stores;
use folio_types::{BlobKey, DocumentId, Environment, Error, OrgId, Reason, Result};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::time::Instant;

use crate::ingest::attempts::{SCRATCH_PREFIX, copy, disk};
use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::model_image::{ModelImage, model_image};
use crate::options::Options;
use crate::reader;
use crate::sniff::{Route, is_image, is_mail, route};
use crate::worker::{Job, Line, Task};
use crate::{ocr, pdf_form};

/// Maximum number of requests that wait.
const WAITERS: usize = 256;
/// Maximum time for which a request waits.
const WAIT: Duration = Duration::from_secs(20);
/// Delay after which a refused request may be repeated.
const RETRY_SOON: Duration = Duration::from_millis(500);
/// Maximum size of an image in bytes.
const IMAGE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of a PDF rendition in bytes.
const PDF_BYTES: u64 = 256 * 1024 * 1024;
/// Maximum output of LibreOffice for the terminal, in bytes.
const MESSAGES_BYTES: u64 = 64 * 1024;
/// Exit status of LibreOffice after it created its profile: it must be started again.
const RESTART: i32 = 81;
/// Folder with the configuration of LibreOffice.
const SOFFICE_CONFIGURATION: &str = "/etc/libreoffice";
/// Number of pages of text that are read together.
const PAGES_PER_READ: u32 = 64;
/// Maximum length of the first line of a child's output.
const LINE_BYTES: u64 = 4 * 1024;
/// Size of the parts in which an image is written to the blob store.
const CHUNK_BYTES: usize = 256 * 1024;

/// Makes renditions. Cheap to clone; clones share the permits.
///
/// The blob store is a cache: the clean-up removes a rendition a day after it was made, and the next request makes it again.
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
        let permits = Permits::leaving_one(options.page_images.max(1), WAITERS);
        let options = options.with_child_memory(&[]);
        Self { stores, environment, options: Arc::new(options), permits }
    }

    /// Returns the number of renditions that are made now.
    pub fn running(&self) -> usize {
        self.permits.load().permits
    }

    /// Makes a rendition of a document and stores it under [`Rendition::blob`], unless it is stored already.
    ///
    /// # Errors
    /// `NOT_FOUND` if the document does not exist, `UNSUPPORTED_TYPE` if the document has no such rendition, `NO_TEXT` if a PDF rendition
    /// needs the text and the document has none, `INVALID_FIELD` if the page or the document cannot be rendered, `OVERLOADED` if too
    /// many renditions are made.
    pub async fn render(&self, org: &OrgId, id: &DocumentId, rendition: &Rendition) -> Result<()> {
        let document = self.document(org, id).await?;
        let method = self.method(&document, rendition)?;
        let _permit = self.permit(org).await?;
        let key = BlobKey { blob: rendition.blob(&document), ..document.blob_key() };
        // Another request may have made the rendition meanwhile.
        if self.stores.blobs.open(&key).await?.is_some() {
            return Ok(());
        }
        let folder =
            tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(self.options.scratch()).map_err(disk)?;
        let folder = folder.path();
        let rendered = match method {
            Method::Child(job) => self.run(&document, job, folder, rendition).await?,
            Method::Soffice(program) => match self.convert(&document, &program, folder).await {
                Ok(converted) => converted,
                Err(problem) => {
                    tracing::warn!(document = %document.id, problem, "LibreOffice failed; the PDF rendition contains the text");
                    self.write_text(&document, folder).await?
                }
            },
            Method::Text => self.write_text(&document, folder).await?,
        };
        self.store(&key, rendered).await
    }

    /// Returns an image that is embedded in a document, for a model. The copy of the image that [`Self::render`] makes is stored.
    ///
    /// # Errors
    /// Those of [`Self::render`], and `INVALID_FIELD` of `image_id` if the image cannot be made smaller.
    pub async fn embedded_for_model(
        &self,
        org: &OrgId,
        id: &DocumentId,
        (page, number): (u32, u32),
    ) -> Result<ModelImage> {
        let rendition = Rendition::Embedded { page, number };
        self.render(org, id, &rendition).await?;
        let document = self.document(org, id).await?;
        let key = BlobKey { blob: rendition.blob(&document), ..document.blob_key() };
        let blob = self.stores.blobs.open(&key).await?.ok_or_else(|| Error::not_found("document", id))?;
        let _permit = self.permit(org).await?;
        let folder =
            tempfile::Builder::new().prefix(SCRATCH_PREFIX).tempdir_in(self.options.scratch()).map_err(disk)?;
        let file = folder.path().join("image");
        copy(blob, &file).await?;
        model_image(&self.options, folder.path(), &file, "image_id").await
    }

    async fn permit(&self, org: &OrgId) -> Result<Permit<OrgId>> {
        self.permits.acquire(org, 1, Instant::now() + WAIT).await.map_err(|_| {
            Error::exhausted(Reason::Overloaded, "too many renditions of documents are made").retry_after(RETRY_SOON)
        })
    }

    async fn document(&self, org: &OrgId, id: &DocumentId) -> Result<Document> {
        self.stores.of::<Document>().get(org, id).await?.ok_or_else(|| Error::not_found("document", id))
    }

    fn method(&self, document: &Document, rendition: &Rendition) -> Result<Method> {
        let media_type = document.media_type.as_str();
        match rendition {
            Rendition::Page(image) => self.job(media_type, image).map(Method::Child),
            Rendition::Embedded { page, number } => match route(media_type) {
                Route::Pdf => Ok(Method::Child(Job::EmbeddedImage { page: *page, number: *number })),
                Route::Office => Ok(Method::Child(Job::OfficeImage {
                    source: reader::office_source(&self.options, media_type),
                    page: *page,
                    number: *number,
                })),
                _ => {
                    let message = format!("files of the type {media_type} have no embedded images");
                    Err(Error::precondition(Reason::UnsupportedType, message))
                }
            },
            Rendition::Pdf if is_image(media_type) => {
                Ok(Method::Child(Job::PdfOfImage { max_pages: self.options.max_pages }))
            }
            Rendition::Pdf => match (route(media_type), self.options.soffice.as_deref().and_then(soffice)) {
                (Route::Pdf, _) => Err(Error::precondition(
                    Reason::UnsupportedType,
                    "a PDF file has no PDF rendition: download the original",
                )),
                // LibreOffice reads no mail.
                (Route::Office, Some(program)) if !is_mail(media_type) => Ok(Method::Soffice(program)),
                _ => Ok(Method::Text),
            },
        }
    }

    fn job(&self, media_type: &str, image: &PageImage) -> Result<Job> {
        let is_pdf = match route(media_type) {
            Route::Pdf => true,
            Route::Image | Route::Tiff => false,
            Route::Text | Route::Office | Route::Archive | Route::None => {
                let message =
                    format!("cannot render a page of a {media_type} file: expected a PDF, PNG, JPEG or TIFF file");
                return Err(Error::precondition(Reason::UnsupportedType, message));
            }
        };
        if image.page() > self.options.max_pages {
            return Err(cannot_render("page", format!("a document has at most {} pages", self.options.max_pages)));
        }
        let is_webp = image.format() == ImageFormat::WebP;
        Ok(Job::Image { is_pdf, page: image.page(), dpi: image.dpi(), is_webp })
    }

    /// Copies the file of a document to a path.
    async fn copy_to(&self, document: &Document, path: &Path) -> Result<()> {
        let blob = self.stores.blobs.open(&document.blob_key()).await?;
        copy(blob.ok_or_else(|| Error::not_found("document", &document.id))?, path).await.map(drop)
    }

    /// Runs the child process. Returns the file with the rendition, after its first line.
    async fn run(
        &self,
        document: &Document,
        job: Job,
        folder: &Path,
        rendition: &Rendition,
    ) -> Result<BufReader<File>> {
        let [input, output] = ["document", "rendition"].map(|name| folder.join(name));
        self.copy_to(document, &input).await?;
        let children = ChildProcesses::new(self.options.worker.clone(), folder.to_owned());
        let options = &self.options;
        let (field, seconds, file_bytes, timeout) = match rendition {
            Rendition::Page(_) => ("page", options.page_image_seconds, IMAGE_BYTES, options.page_image_timeout()),
            Rendition::Embedded { .. } => {
                ("image_id", options.page_image_seconds, IMAGE_BYTES, options.page_image_timeout())
            }
            Rendition::Pdf => ("document_id", options.pdf_seconds, PDF_BYTES, options.pdf_timeout()),
        };
        let task = Task { cpu_seconds: seconds, file_bytes, ..reader::task(options, job) };
        let files = Files { input: Some(&input), output: Some(&output), password: None };
        match children.run(&task, files, timeout, 0).await {
            Ok(_) => {}
            Err(error @ ChildError::Start(_)) => {
                return Err(Error::unavailable(Reason::Overloaded, error.to_string()));
            }
            Err(error) => return Err(cannot_render(field, error.to_string())),
        }
        let mut output = BufReader::new(File::open(&output).await.map_err(disk)?);
        let mut line = Vec::new();
        (&mut output).take(LINE_BYTES).read_until(b'\n', &mut line).await.map_err(disk)?;
        match serde_json::from_slice(&line) {
            Ok(Line::Image) => Ok(output),
            Ok(Line::Refused { reason }) => Err(cannot_render(field, reason)),
            _ => Err(cannot_render(field, "the process that renders pages failed")),
        }
    }

    /// Converts an office document with LibreOffice. The error is the reason for the log.
    async fn convert(&self, document: &Document, program: &Path, folder: &Path) -> Result<BufReader<File>, String> {
        let input = folder.join("document");
        self.copy_to(document, &input).await.map_err(|error| error.to_string())?;
        let url = |path: &Path| format!("file://{}", path.display());
        let arguments = [
            "--headless".to_owned(),
            "--norestore".to_owned(),
            "--nologo".to_owned(),
            "--nolockcheck".to_owned(),
            format!("-env:UserInstallation={}", url(&folder.join("profile"))),
            // Debian's folder of shared extensions is a link out of the folders that the child may read.
            format!("-env:UNO_SHARED_PACKAGES_CACHE={}", url(&folder.join("profile/shared"))),
            format!("-env:OSL_SOCKET_PATH={}", folder.display()),
            "--convert-to".to_owned(),
            "pdf".to_owned(),
            "--outdir".to_owned(),
            folder.display().to_string(),
            input.display().to_string(),
        ];
        let mut readable = self.options.readable.clone();
        readable.push(PathBuf::from(SOFFICE_CONFIGURATION));
        let job = Job::Program { path: program.to_owned(), arguments: arguments.into(), readable, is_writer: true };
        let task =
            Task { cpu_seconds: self.options.pdf_seconds, file_bytes: PDF_BYTES, ..reader::task(&self.options, job) };
        let children = ChildProcesses::new(self.options.worker.clone(), folder.to_owned());
        let run = || children.run(&task, Files::default(), self.options.pdf_timeout(), MESSAGES_BYTES);
        let ended = match run().await {
            // The first run creates the profile.
            Err(ChildError::Exit { status: RESTART, .. }) => run().await,
            ended => ended,
        };
        ended.map_err(|error| error.to_string())?;
        let output = folder.join("document.pdf");
        File::open(&output).await.map(BufReader::new).map_err(|_| "it wrote no file".to_owned())
    }

    /// Writes the extracted text as a PDF file.
    async fn write_text(&self, document: &Document, folder: &Path) -> Result<BufReader<File>> {
        match &document.state {
            TextState::Ready => {}
            TextState::Uploaded | TextState::Processing => {
                let message = "the text of the document is not extracted yet; its PDF rendition contains the text";
                return Err(Error::precondition(Reason::NoText, message).retry_after(RETRY_SOON));
            }
            TextState::NoText(reason) | TextState::Failed(reason) => {
                let message = format!("the document has no text for its PDF rendition: {reason}");
                return Err(Error::precondition(Reason::NoText, message));
            }
        }
        let (mut pages, mut next) = (Vec::new(), 1);
        while next <= document.pages {
            let read = self.stores.texts.text(&document.org, document.id.as_str(), next, PAGES_PER_READ).await?;
            if read.is_empty() {
                break;
            }
            pages.extend(read.into_iter().map(|page| page.text));
            next = next.saturating_add(PAGES_PER_READ);
        }
        let path = folder.join("text.pdf");
        let written = path.clone();
        let write = move || {
            let file = std::io::BufWriter::new(std::fs::File::create(written)?);
            pdf_form::write_text(file, pages).map(drop)
        };
        let ended = tokio::task::spawn_blocking(write).await;
        ended.map_err(|error| Error::internal(format!("the PDF rendition was not written: {error}")))?.map_err(disk)?;
        File::open(&path).await.map(BufReader::new).map_err(disk)
    }

    /// Stores a rendition. Its size is stored first, so that no rendition is missing in the sum.
    async fn store(&self, key: &BlobKey, mut rendition: impl AsyncRead + Unpin) -> Result<()> {
        let (documents, now) = (self.stores.of::<Document>(), self.environment.now());
        let mut writer = self.stores.blobs.create(key).await?;
        let mut bytes = 0;
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = (&mut rendition).take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await.map_err(disk)?;
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

/// The way in which a rendition is made.
enum Method {
    /// A child process of this program.
    Child(Job),
    /// LibreOffice, by the path of its program.
    Soffice(PathBuf),
    /// The extracted text, written by this process.
    Text,
}

fn cannot_render(field: &str, reason: impl std::fmt::Display) -> Error {
    let what = match field {
        "page" => "page",
        "image_id" => "image",
        _ => "file",
    };
    Error::invalid_field(field, format!("the {what} cannot be rendered: {reason}"))
}

/// Finds the program of LibreOffice. The script `soffice` starts it as a further process, which the confinement refuses. None: it is
/// not installed.
fn soffice(setting: &Path) -> Option<PathBuf> {
    let found = ocr::find(setting)?.canonicalize().ok()?;
    let program = found.with_file_name("soffice.bin");
    Some(if program.is_file() { program } else { found })
}
