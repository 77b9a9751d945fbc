//! Settings of this crate's components.

use std::path::PathBuf;
use std::time::Duration;

use folio_types::limits;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

const GIB: u64 = 1024 * 1024 * 1024;

/// Settings of uploading and of reading text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Bytes of a document at most.
    pub max_bytes: u64,
    /// Uploads under way at once; further ones are refused with `OVERLOADED`.
    pub uploads: usize,
    /// The same for each organization.
    pub uploads_per_organization: usize,
    /// Bytes that uploads under way may take on disk together. One counts for what it announced, or for `max_bytes`;
    /// one that finds no room is refused with `OVERLOADED`.
    pub upload_bytes: u64,
    /// The same for each organization.
    pub upload_bytes_per_organization: u64,
    /// Pages of a document at most; a longer one is refused by its state.
    pub max_pages: u32,
    /// Characters of one page that are kept; a longer one is cut visibly.
    pub page_chars: usize,
    /// Characters of one document that are kept; a longer one is cut visibly.
    pub document_chars: usize,
    /// Documents that are read at the same time, without those that take long.
    pub concurrency: usize,
    /// Seconds after which a document takes long: from then on it does not keep others from being read, ...
    pub slow_after_seconds: u64,
    /// ... as long as no more than these take long.
    pub slow_concurrency: usize,
    /// Documents that wait in memory to be read, where one process has the queue to itself; more wait in the store.
    pub queue: usize,
    /// Seconds between two looks at the store for documents that nobody submitted, and at the programs that are
    /// installed: where one is new, documents that lacked one are read.
    pub rescan_seconds: u64,
    /// Attempts to read a document that ended with this process, after which it counts as failed.
    pub attempts: u32,
    /// Bytes of address space of a child that reads a file.
    pub child_memory_bytes: u64,
    /// Processor seconds of a child that reads a PDF or HTML file.
    pub child_cpu_seconds: u64,
    /// Seconds by the clock of a child that reads a PDF or HTML file.
    pub child_seconds: u64,
    /// Processor seconds, and half as many again by the clock, for recognizing one page image.
    pub ocr_page_seconds: u64,
    /// Seconds by the clock after which no further page of a document is recognized; the rest says that it was not.
    pub ocr_document_seconds: u64,
    /// Pages of a document without a text layer that are recognized; the rest says that it was not.
    pub ocr_pages: u32,
    /// Dots per inch at which pages of a PDF are drawn for recognition.
    pub ocr_dpi: u32,
    /// Languages of recognition as Tesseract names them, joined by `+`.
    pub ocr_languages: String,
    /// Tesseract: a name that is looked up in `PATH`, or a path.
    pub tesseract: PathBuf,
    /// Poppler's pdftoppm: a name that is looked up in `PATH`, or a path.
    pub pdftoppm: PathBuf,
    /// Where files lie while they are read; none: the system's temporary folder.
    pub scratch: Option<PathBuf>,
    /// How a child is started; none: this very binary.
    #[serde(skip)]
    pub worker: Option<WorkerCommand>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_bytes: limits::DOCUMENT_BYTES,
            uploads: 256,
            uploads_per_organization: 64,
            upload_bytes: 4 * 1024 * 1024 * 1024,
            upload_bytes_per_organization: 1024 * 1024 * 1024,
            max_pages: limits::DOCUMENT_PAGES,
            page_chars: 100_000,
            document_chars: 8_000_000,
            concurrency: 2,
            slow_after_seconds: 10,
            slow_concurrency: 2,
            queue: 1_024,
            rescan_seconds: 60,
            attempts: 5,
            child_memory_bytes: 1536 * 1024 * 1024,
            child_cpu_seconds: 60,
            child_seconds: 120,
            ocr_page_seconds: 60,
            ocr_document_seconds: 600,
            ocr_pages: 500,
            ocr_dpi: 200,
            ocr_languages: "eng".to_owned(),
            tesseract: PathBuf::from("tesseract"),
            pdftoppm: PathBuf::from("pdftoppm"),
            scratch: None,
            worker: None,
        }
    }
}

impl Options {
    /// Checks every setting.
    ///
    /// # Errors
    /// All that is out of bounds, with the bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("documents");
        problems.number("max_bytes", self.max_bytes, 1, 10 * GIB);
        // Where one of the largest does not fit, none is ever taken that does not say its size.
        problems.number("upload_bytes", self.upload_bytes, self.max_bytes, 100_000 * GIB);
        problems.number(
            "upload_bytes_per_organization",
            self.upload_bytes_per_organization,
            self.max_bytes,
            100_000 * GIB,
        );
        problems.number("child_memory_bytes", self.child_memory_bytes, 64 * 1024 * 1024, 1024 * GIB);
        for (path, value, most) in [
            ("page_chars", self.page_chars, 10_000_000),
            ("document_chars", self.document_chars, 1_000_000_000),
            ("concurrency", self.concurrency, 1_024),
            ("queue", self.queue, 1_000_000),
            ("slow_concurrency", self.slow_concurrency, 1_024),
            ("uploads", self.uploads, 100_000),
            ("uploads_per_organization", self.uploads_per_organization, 100_000),
        ] {
            problems.number(path, value, 1, most);
        }
        for (path, value, most) in [
            ("max_pages", self.max_pages, 100_000),
            ("attempts", self.attempts, 100),
            ("ocr_pages", self.ocr_pages, 100_000),
            ("ocr_dpi", self.ocr_dpi, 1_200),
        ] {
            problems.number(path, value, 1, most);
        }
        for (path, value) in [
            ("child_cpu_seconds", self.child_cpu_seconds),
            ("child_seconds", self.child_seconds),
            ("ocr_page_seconds", self.ocr_page_seconds),
            ("ocr_document_seconds", self.ocr_document_seconds),
            ("rescan_seconds", self.rescan_seconds),
            ("slow_after_seconds", self.slow_after_seconds),
        ] {
            problems.number(path, value, 1, 86_400);
        }
        let languages =
            self.ocr_languages.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-'));
        let what = "must be names of Tesseract's languages joined by `+`";
        problems.check(languages && !self.ocr_languages.is_empty(), "ocr_languages", what);
        problems.verdict()
    }

    pub(crate) fn slow_after(&self) -> Duration {
        Duration::from_secs(self.slow_after_seconds)
    }

    pub(crate) fn child_wall(&self) -> Duration {
        Duration::from_secs(self.child_seconds)
    }

    pub(crate) fn ocr_wall(&self) -> Duration {
        Duration::from_secs(self.ocr_page_seconds.saturating_mul(3) / 2)
    }
}

/// How a child that reads files is started: a binary that calls [`crate::worker::run_if_asked`] first of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// The binary.
    pub program: PathBuf,
}
