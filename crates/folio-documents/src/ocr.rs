//! Optical character recognition (OCR) by Tesseract. Poppler's pdftoppm renders the pages of a PDF first. Both run as
//! child processes under limits, one page each, with bounded concurrency.

use std::path::{Path, PathBuf};
use std::time::Duration;

use folio_resources::WordBoxes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::options::{Isolation, Options};
use crate::recognized;
use crate::worker::{Job, Task};

/// Maximum output for one page image, in bytes.
const OUTPUT_BYTES: u64 = 4 * 1024 * 1024;
/// Timeout of listing Tesseract's languages.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
const LIST_PREFIX: &str = "List of available languages";
/// Maximum size of one rendered page, in bytes.
const RENDERED_BYTES: u64 = 128 * 1024 * 1024;

/// The installed programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    tesseract: bool,
    pdftoppm: bool,
}

impl Installed {
    pub(crate) fn find(options: &Options) -> Self {
        Self { tesseract: find(&options.tesseract).is_some(), pdftoppm: find(&options.pdftoppm).is_some() }
    }

    /// Returns true if a program is installed that was missing before. pdftoppm counts only together with Tesseract.
    pub(crate) fn has_new_program(self, before: Self) -> bool {
        self.tesseract && (!before.tesseract || self.pdftoppm && !before.pdftoppm)
    }
}

/// The OCR of one file with the installed programs.
pub(crate) struct Ocr<'a> {
    options: &'a Options,
    children: &'a ChildProcesses,
    /// Bounds the concurrent child processes of all files.
    slots: &'a Semaphore,
    tesseract: PathBuf,
    pdftoppm: Option<PathBuf>,
}

impl<'a> Ocr<'a> {
    /// Finds the programs. The error is the reason for users, with the missing package.
    pub(crate) async fn start(
        options: &'a Options,
        children: &'a ChildProcesses,
        slots: &'a Semaphore,
        for_pdf: bool,
    ) -> Result<Self, String> {
        let missing = |what: &str, package: &str| {
            format!(
                "the file is an image, and {what} is not installed on the server; it is read after {package} is installed"
            )
        };
        let tesseract = find(&options.tesseract).ok_or_else(|| missing("Tesseract", "tesseract-ocr"))?;
        if let Some(language) = missing_language(options, children, &tesseract).await {
            let package = format!("tesseract-ocr-{}", language.replace('_', "-").to_ascii_lowercase());
            return Err(format!(
                "the file is an image, and Tesseract's language {language} (documents.ocr_languages) is not installed; it is read \
                 after {package} is installed and the server restarted"
            ));
        }
        let pdftoppm = match for_pdf {
            true => Some(find(&options.pdftoppm).ok_or_else(|| missing("pdftoppm", "poppler-utils"))?),
            false => None,
        };
        Ok(Self { options, children, slots, tesseract, pdftoppm })
    }

    /// Returns the text of an image file with the boxes of its words. `page` (from 1) selects a page of a file that may have
    /// several.
    pub(crate) async fn image(&self, image: &Path, page: Option<u32>) -> Result<(String, WordBoxes), ChildError> {
        let _slot = self.slots.acquire().await;
        let mut arguments =
            vec![path_argument(image), "stdout".to_owned(), "-l".to_owned(), self.options.ocr_languages.clone()];
        if let Some(page) = page {
            arguments.extend(["-c".to_owned(), format!("tessedit_page_number={}", page.saturating_sub(1))]);
        }
        arguments.extend(["-c".to_owned(), "tessedit_create_tsv=1".to_owned()]);
        let output = self.run(&self.tesseract, arguments, Files::default()).await?;
        Ok(recognized::read(&String::from_utf8_lossy(&output)))
    }

    /// Returns the text of a page of a PDF, rendered into `folder`, with the boxes of its words. `page` starts at 1.
    pub(crate) async fn pdf_page(
        &self,
        pdf: &Path,
        folder: &Path,
        page: u32,
    ) -> Result<(String, WordBoxes), ChildError> {
        let pdftoppm = self.pdftoppm.as_deref().unwrap_or(&self.options.pdftoppm);
        let image = folder.join(format!("page-{page}.png"));
        let (page, dpi) = (page.to_string(), self.options.ocr_dpi.to_string());
        let fixed = ["-r", &dpi, "-f", &page, "-l", &page, "-gray", "-png", "-singlefile"];
        let arguments = fixed.iter().map(|text| (*text).to_owned()).chain([path_argument(pdf)]).collect();
        {
            let _slot = self.slots.acquire().await;
            let files = Files { output: Some(&image), ..Files::default() };
            self.run(pdftoppm, arguments, files).await?;
        }
        let text = self.image(&image, None).await;
        if let Err(error) = tokio::fs::remove_file(&image).await {
            tracing::debug!(%error, "cannot remove a rendered page");
        }
        text
    }

    async fn run(&self, program: &Path, arguments: Vec<String>, files: Files<'_>) -> Result<Vec<u8>, ChildError> {
        let task = task(self.options, program, arguments);
        self.children.run(&task, files, self.options.ocr_timeout(), OUTPUT_BYTES).await
    }
}

/// The remaining OCR budget of a document, so that a long scan does not block all others.
#[derive(Debug)]
pub(crate) struct OcrBudget<'a> {
    options: &'a Options,
    started: Instant,
    pages: u32,
}

impl<'a> OcrBudget<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, started: Instant::now(), pages: options.ocr_pages }
    }

    /// Takes one page from the budget. The error is the text that replaces the page; `kind` names the counted pages in
    /// it.
    pub(crate) fn take(&mut self, kind: &str) -> Result<(), String> {
        let seconds = self.options.ocr_document_seconds;
        if self.started.elapsed().as_secs() >= seconds {
            return Err(format!("[Not recognized: the previous pages took longer than {seconds} s.]"));
        }
        let max = self.options.ocr_pages;
        let more = || format!("[Not recognized: the document has more than {max} {kind}.]");
        self.pages = self.pages.checked_sub(1).ok_or_else(more)?;
        Ok(())
    }
}

fn task(options: &Options, program: &Path, arguments: Vec<String>) -> Task {
    let mut readable = options.readable.clone();
    readable.extend(std::env::var_os("TESSDATA_PREFIX").map(PathBuf::from));
    Task {
        memory_bytes: options.child_memory_bytes,
        cpu_seconds: options.ocr_page_seconds,
        file_bytes: RENDERED_BYTES,
        isolation_required: options.isolation == Isolation::Required,
        job: Job::Program { path: program.to_owned(), arguments, readable, is_writer: false },
    }
}

fn path_argument(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the first configured language that Tesseract does not have. None also if Tesseract does not list its
/// languages; OCR itself then fails.
async fn missing_language(options: &Options, children: &ChildProcesses, tesseract: &Path) -> Option<String> {
    let task = task(options, tesseract, vec!["--list-langs".to_owned()]);
    let listed = children.run(&task, Files::default(), LIST_TIMEOUT, OUTPUT_BYTES).await.ok()?;
    let listed = String::from_utf8_lossy(&listed);
    let is_installed = |language: &&str| listed.lines().any(|line| line.trim() == *language);
    let mut wanted = options.ocr_languages.split('+');
    listed.starts_with(LIST_PREFIX).then(|| wanted.find(|language| !is_installed(language)))?.map(str::to_owned)
}

/// Finds a program by its path, or by its name in `PATH`.
pub(crate) fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_absolute() && found.is_file())
}
