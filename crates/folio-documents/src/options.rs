//! Settings of uploads and ingestion.

use std::path::PathBuf;
use std::time::Duration;

use folio_types::limits;
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

const GIB: u64 = 1024 * 1024 * 1024;

/// The confinement of child processes on a kernel that refuses a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The node refuses to start, and names the missing part.
    Required,
    /// The node logs the missing part at its start, and reads documents with the rest.
    #[default]
    BestEffort,
}

folio_types::settings! {
    /// The settings section `documents`.
    pub struct Options {
        /// Maximum size of a document in bytes.
        pub max_bytes: u64 = limits::DOCUMENT_BYTES,
        /// Maximum number of active uploads. Further uploads fail with `OVERLOADED`.
        pub uploads: usize = 256,
        /// Maximum number of active uploads of an organization.
        pub uploads_per_organization: usize = 64,
        /// Maximum bytes on disk of all active uploads. An upload counts with its declared size, or with `max_bytes` if
        /// it declares none. Uploads that do not fit fail with `OVERLOADED`.
        pub upload_bytes: u64 = 4 * 1024 * 1024 * 1024,
        /// Maximum bytes on disk of an organization's active uploads.
        pub upload_bytes_per_organization: u64 = 1024 * 1024 * 1024,
        /// Maximum number of pages of a document. The ingestion of a longer document fails.
        pub max_pages: u32 = limits::DOCUMENT_PAGES,
        /// Maximum number of characters per page. A longer page is truncated, and a mark in the text states the
        /// truncation.
        pub page_chars: usize = 100_000,
        /// Maximum number of characters per document. A longer document is truncated, and a mark in the text states the
        /// truncation.
        pub document_chars: usize = 8_000_000,
        /// Maximum number of documents that are read concurrently, not counting up to `slow_concurrency` slow
        /// documents.
        pub concurrency: usize = 2,
        /// Seconds after which a document counts as slow.
        pub slow_after_seconds: u64 = 10,
        /// Maximum number of slow documents that do not count against `concurrency`.
        pub slow_concurrency: usize = 2,
        /// Maximum number of page images and PDF renditions that are made concurrently. Further requests wait; organizations
        /// take turns.
        pub page_images: usize = 1,
        /// Maximum number of protected PDFs that uploads read, and of PDFs that requests split or propose to split, concurrently.
        /// Further requests wait; organizations take turns.
        pub protected_uploads: usize = 1,
        /// Maximum wall-clock time and processor time of rendering the image of a page, in seconds.
        pub page_image_seconds: u64 = 20,
        /// Maximum wall-clock time and processor time of making the PDF rendition of a document, in seconds. Calls between processes
        /// have a limit of their own, `cluster.call_timeout_seconds`.
        pub pdf_seconds: u64 = 60,
        /// Maximum number of documents in an in-memory queue, half of it for one organization. Further documents wait in
        /// the store.
        pub queue: usize = 1_024,
        /// Seconds between two scans of the store for pending documents, and between two checks of the installed
        /// programs. Documents that lacked a program are read after its installation.
        pub rescan_seconds: u64 = 60,
        /// Number of attempts that ended with the death of the process after which a document fails. An attempt that
        /// a shutdown cancels does not count.
        pub attempts: u32 = 2,
        /// Memory of all child processes together in bytes. 0: half of the memory limit of the container, but at most what the other
        /// parts of the process leave of it, or half of the memory of the machine.
        pub memory_bytes: u64 = 0,
        /// Maximum address space of a child process in bytes. 0: an equal part of `memory_bytes` for each of
        /// `concurrency` + `slow_concurrency` + `page_images` + `protected_uploads` child processes, at most 1.5 GiB.
        pub child_memory_bytes: u64 = 0,
        /// Maximum processor time of a child process that reads a PDF, office, HTML or text file, in seconds.
        pub child_cpu_seconds: u64 = 60,
        /// Maximum wall-clock time of a child process that reads a PDF, office, HTML or text file, in seconds.
        pub child_seconds: u64 = 120,
        /// Maximum processor time for OCR of one page image, in seconds. The wall-clock limit is 1.5 times as long.
        pub ocr_page_seconds: u64 = 60,
        /// Wall-clock seconds after which no further page of a document gets OCR. The remaining pages contain a note.
        pub ocr_document_seconds: u64 = 600,
        /// Maximum number of pages of a document without a text layer that get OCR. The remaining pages contain a note.
        pub ocr_pages: u32 = 500,
        /// Resolution at which pages of a PDF are rendered for OCR, in dots per inch.
        pub ocr_dpi: u32 = 200,
        /// OCR languages by Tesseract's names, joined by `+`.
        pub ocr_languages: String = "eng".to_owned(),
        /// Path of Tesseract, or a name that is searched in `PATH`.
        pub tesseract: PathBuf = PathBuf::from("tesseract"),
        /// Path of Poppler's pdftoppm, or a name that is searched in `PATH`.
        pub pdftoppm: PathBuf = PathBuf::from("pdftoppm"),
        /// Path of LibreOffice's `soffice`, or a name that is searched in `PATH`, which makes the PDF renditions of office documents. None:
        /// a PDF rendition contains the extracted text.
        pub soffice: Option<PathBuf> = None,
        /// The confinement that the kernel must support.
        pub isolation: Isolation = Isolation::BestEffort,
        /// Files and folders that Tesseract, pdftoppm and LibreOffice may read, in addition to `/usr`, `/lib`, `/bin`, `/etc/fonts`
        /// and their own program files.
        pub readable: Vec<PathBuf> = Vec::new(),
        /// Folder for temporary files. None: the system's temporary folder.
        pub scratch: Option<PathBuf> = None,
        /// Program of the child process, whose `main` first calls [`crate::worker::run_if_child`]. None: this binary.
        #[serde(skip)]
        pub worker: Option<PathBuf> = None,
    }
}

impl Options {
    /// Returns the options without the child processes of a role that the process does not have: gateways read
    /// protected PDFs of uploads and split PDFs, nodes read documents and render images.
    #[must_use]
    pub fn for_roles(self, is_gateway: bool, is_node: bool) -> Self {
        let only = |is_used: bool, children: usize| if is_used { children } else { 0 };
        Self {
            concurrency: only(is_node, self.concurrency),
            slow_concurrency: only(is_node, self.slow_concurrency),
            page_images: only(is_node, self.page_images),
            protected_uploads: only(is_gateway, self.protected_uploads),
            ..self
        }
    }

    /// Returns every invalid setting.
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
        for (path, value) in [("memory_bytes", self.memory_bytes), ("child_memory_bytes", self.child_memory_bytes)] {
            // 0: the value is calculated.
            problems.number(path, if value == 0 { GIB } else { value }, 64 * 1024 * 1024, 1024 * GIB);
        }
        for (path, value, max) in [
            ("page_chars", self.page_chars, 10_000_000),
            ("document_chars", self.document_chars, 1_000_000_000),
            ("concurrency", self.concurrency, 1_024),
            ("queue", self.queue, 1_000_000),
            ("page_images", self.page_images, 1_024),
            ("protected_uploads", self.protected_uploads, 1_024),
            ("uploads", self.uploads, 100_000),
            ("uploads_per_organization", self.uploads_per_organization, 100_000),
        ] {
            problems.number(path, value, 1, max);
        }
        problems.number("slow_concurrency", self.slow_concurrency, 0, 1_024);
        for (path, value, max) in [
            ("max_pages", self.max_pages, 100_000),
            ("attempts", self.attempts, 100),
            ("ocr_pages", self.ocr_pages, 100_000),
            ("ocr_dpi", self.ocr_dpi, 1_200),
        ] {
            problems.number(path, value, 1, max);
        }
        for (path, value) in [
            ("child_cpu_seconds", self.child_cpu_seconds),
            ("child_seconds", self.child_seconds),
            ("page_image_seconds", self.page_image_seconds),
            ("pdf_seconds", self.pdf_seconds),
            ("ocr_page_seconds", self.ocr_page_seconds),
            ("ocr_document_seconds", self.ocr_document_seconds),
            ("rescan_seconds", self.rescan_seconds),
            ("slow_after_seconds", self.slow_after_seconds),
        ] {
            problems.number(path, value, 1, 86_400);
        }
        let languages =
            self.ocr_languages.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-'));
        let what = "must be Tesseract language names joined by `+`";
        problems.check(languages && !self.ocr_languages.is_empty(), "ocr_languages", what);
        problems.into_result()
    }

    /// Returns the folder for temporary files. Child processes have another working directory, so the path is absolute.
    pub(crate) fn scratch(&self) -> PathBuf {
        let folder = self.scratch.clone().unwrap_or_else(std::env::temp_dir);
        std::path::absolute(&folder).unwrap_or(folder)
    }

    pub(crate) fn slow_after(&self) -> Duration {
        Duration::from_secs(self.slow_after_seconds)
    }

    pub(crate) fn child_timeout(&self) -> Duration {
        Duration::from_secs(self.child_seconds)
    }

    pub(crate) fn page_image_timeout(&self) -> Duration {
        Duration::from_secs(self.page_image_seconds)
    }

    pub(crate) fn pdf_timeout(&self) -> Duration {
        Duration::from_secs(self.pdf_seconds)
    }

    pub(crate) fn ocr_timeout(&self) -> Duration {
        Duration::from_secs(self.ocr_page_seconds.saturating_mul(3) / 2)
    }
}
