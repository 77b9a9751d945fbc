//! Settings of uploads and ingestion.

use std::path::PathBuf;
use std::time::Duration;

use folio_types::limits;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

const GIB: u64 = 1024 * 1024 * 1024;

/// Settings of uploads and ingestion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Maximum size of a document, in bytes.
    pub max_bytes: u64,
    /// Maximum active uploads. Further ones are refused with `OVERLOADED`.
    pub uploads: usize,
    /// Maximum active uploads of an organization.
    pub uploads_per_organization: usize,
    /// Maximum bytes on disk of all active uploads. An upload counts with its declared size, or with `max_bytes`.
    /// Uploads that do not fit are refused with `OVERLOADED`.
    pub upload_bytes: u64,
    /// Maximum bytes on disk of an organization's active uploads.
    pub upload_bytes_per_organization: u64,
    /// Maximum pages of a document. The ingestion of a longer one fails.
    pub max_pages: u32,
    /// Maximum characters per page. A longer page is cut with a mark.
    pub page_chars: usize,
    /// Maximum characters per document. A longer document is cut with a mark.
    pub document_chars: usize,
    /// Maximum documents that are read at once, not counting slow ones.
    pub concurrency: usize,
    /// Seconds after which a document counts as slow and no longer against `concurrency`.
    pub slow_after_seconds: u64,
    /// Maximum slow documents that do not count against `concurrency`.
    pub slow_concurrency: usize,
    /// Maximum queued documents in memory, for a process with its own queue. Further ones wait in the store.
    pub queue: usize,
    /// Seconds between two scans of the store for pending documents, and between two checks of the installed programs.
    /// Documents that lacked a program are read after its installation.
    pub rescan_seconds: u64,
    /// Attempts that crashed the process, after which a document fails.
    pub attempts: u32,
    /// Address space of a child process that reads a file, in bytes.
    pub child_memory_bytes: u64,
    /// Processor time of a child process that reads a PDF or HTML file, in seconds.
    pub child_cpu_seconds: u64,
    /// Wall-clock time of a child process that reads a PDF or HTML file, in seconds.
    pub child_seconds: u64,
    /// Processor time for OCR of one page image, in seconds. The wall-clock limit is 1.5 times as long.
    pub ocr_page_seconds: u64,
    /// Wall-clock seconds after which no further page of a document gets OCR. The remaining pages contain a note.
    pub ocr_document_seconds: u64,
    /// Maximum pages of a document without a text layer that get OCR. The remaining pages contain a note.
    pub ocr_pages: u32,
    /// Resolution at which pages of a PDF are rendered for OCR, in dots per inch.
    pub ocr_dpi: u32,
    /// OCR languages by Tesseract's names, joined by `+`.
    pub ocr_languages: String,
    /// Tesseract: a path, or a name that is looked up in `PATH`.
    pub tesseract: PathBuf,
    /// Poppler's pdftoppm: a path, or a name that is looked up in `PATH`.
    pub pdftoppm: PathBuf,
    /// Folder for temporary files. None: the system's temporary folder.
    pub scratch: Option<PathBuf>,
    /// Command of the child process. None: this binary.
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
    /// Returns every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("documents");
        problems.number("max_bytes", self.max_bytes, 1, 10 * GIB);
        // A smaller value would refuse every upload without a declared size.
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

/// Command of the child process: a binary whose `main` first calls [`crate::worker::run_if_asked`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    /// Path of the binary.
    pub program: PathBuf,
}
