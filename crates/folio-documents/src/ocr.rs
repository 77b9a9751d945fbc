//! Recognition of text in page images, by Tesseract; pages of a PDF are drawn by Poppler's pdftoppm first. Both run as
//! children under limits, one page at a time, as many at once as there are slots.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::isolate::{ChildError, Children};
use crate::options::Options;
use crate::worker::{Job, Task};

/// Bytes of the text of one page image.
const OUTPUT_BYTES: u64 = 4 * 1024 * 1024;
/// How long Tesseract may take to name its languages.
const LISTING: Duration = Duration::from_secs(10);
/// How its list of languages begins.
const LIST_BEGINS: &str = "List of available languages";
/// Bytes of one drawn page.
const DRAWN_BYTES: u64 = 128 * 1024 * 1024;

/// Recognition with the tools that are installed.
#[derive(Debug)]
pub(crate) struct Ocr {
    slots: Semaphore,
}

/// Which programs are installed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    tesseract: bool,
    pdftoppm: bool,
}

impl Installed {
    /// Whether a file that lacked a program before may be read now.
    pub(crate) fn is_more_than(self, before: Self) -> bool {
        self.tesseract && (!before.tesseract || self.pdftoppm && !before.pdftoppm)
    }
}

/// The tools that a file needs, found.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    tesseract: PathBuf,
    pdftoppm: Option<PathBuf>,
}

impl Ocr {
    pub(crate) fn new(options: &Options) -> Self {
        Self { slots: Semaphore::new(options.concurrency.max(1)) }
    }

    /// What recognition needs, or which package is missing.
    pub(crate) async fn tools(options: &Options, children: &Children, for_pdf: bool) -> Result<Tools, String> {
        let missing = |what: &str, package: &str| {
            format!("it is an image, and {what} is not installed: once {package} is there on the server, it is read")
        };
        let tesseract = find(&options.tesseract).ok_or_else(|| missing("Tesseract", "tesseract-ocr"))?;
        if let Some(language) = missing_language(options, children, &tesseract).await {
            let package = format!("tesseract-ocr-{}", language.replace('_', "-").to_ascii_lowercase());
            return Err(format!(
                "it is an image, and Tesseract's language {language} (documents.ocr_languages) is not installed: once \
                 {package} is there and the server was started again, it is read"
            ));
        }
        let pdftoppm = match for_pdf {
            true => Some(find(&options.pdftoppm).ok_or_else(|| missing("pdftoppm", "poppler-utils"))?),
            false => None,
        };
        Ok(Tools { tesseract, pdftoppm })
    }

    /// Which programs are there now.
    pub(crate) fn installed(options: &Options) -> Installed {
        Installed { tesseract: find(&options.tesseract).is_some(), pdftoppm: find(&options.pdftoppm).is_some() }
    }

    /// The text of an image file; `page` from 1 where it may have several.
    pub(crate) async fn image(
        &self,
        options: &Options,
        children: &Children,
        tools: &Tools,
        image: &Path,
        page: Option<u32>,
    ) -> Result<String, ChildError> {
        let _slot = self.slots.acquire().await;
        let mut arguments = vec![text_of(image), "stdout".to_owned(), "-l".to_owned(), options.ocr_languages.clone()];
        if let Some(page) = page {
            arguments.extend(["-c".to_owned(), format!("tessedit_page_number={}", page.saturating_sub(1))]);
        }
        let task = task(options, &tools.tesseract, arguments);
        let output = children.run(&task, None, options.ocr_wall(), OUTPUT_BYTES).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// The text of a page of a PDF, drawn into `folder` first.
    pub(crate) async fn pdf_page(
        &self,
        options: &Options,
        children: &Children,
        tools: &Tools,
        (pdf, folder): (&Path, &Path),
        page: u32,
    ) -> Result<String, ChildError> {
        let pdftoppm = tools.pdftoppm.as_deref().unwrap_or(&options.pdftoppm);
        let drawn = folder.join(format!("page-{page}"));
        let (page, dpi) = (page.to_string(), options.ocr_dpi.to_string());
        let fixed = ["-r", &dpi, "-f", &page, "-l", &page, "-gray", "-png", "-singlefile"];
        let arguments = fixed.iter().map(|text| (*text).to_owned()).chain([text_of(pdf), text_of(&drawn)]).collect();
        {
            let _slot = self.slots.acquire().await;
            children.run(&task(options, pdftoppm, arguments), None, options.ocr_wall(), OUTPUT_BYTES).await?;
        }
        let image = drawn.with_extension("png");
        let text = self.image(options, children, tools, &image, None).await;
        if let Err(error) = tokio::fs::remove_file(&image).await {
            tracing::debug!(%error, "a drawn page could not be removed");
        }
        text
    }
}

/// What one document may still have recognized, so that a long scan does not keep all others waiting.
#[derive(Debug)]
pub(crate) struct Allowance<'a> {
    options: &'a Options,
    begun: Instant,
    pages: u32,
}

impl<'a> Allowance<'a> {
    /// All that a document may have; its time begins now.
    pub(crate) fn new(options: &'a Options) -> Self {
        Self { options, begun: Instant::now(), pages: options.ocr_pages }
    }

    /// Takes one page, or gives the text that stands in its place; `kind` says which pages count.
    pub(crate) fn take(&mut self, kind: &str) -> Result<(), String> {
        let seconds = self.options.ocr_document_seconds;
        if self.begun.elapsed().as_secs() >= seconds {
            return Err(format!("[Not recognized: the pages before took longer than {seconds} s.]"));
        }
        let most = self.options.ocr_pages;
        let more = || format!("[Not recognized: the document has more than {most} {kind}.]");
        self.pages = self.pages.checked_sub(1).ok_or_else(more)?;
        Ok(())
    }
}

fn task(options: &Options, program: &Path, arguments: Vec<String>) -> Task {
    Task {
        memory_bytes: options.child_memory_bytes,
        cpu_seconds: options.ocr_page_seconds,
        file_bytes: DRAWN_BYTES,
        job: Job::Program { path: program.to_owned(), arguments },
    }
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The first wanted language that Tesseract does not have; none also where it does not tell: then recognition itself will.
async fn missing_language(options: &Options, children: &Children, tesseract: &Path) -> Option<String> {
    let task = task(options, tesseract, vec!["--list-langs".to_owned()]);
    let listed = children.run(&task, None, LISTING, OUTPUT_BYTES).await.ok()?;
    let listed = String::from_utf8_lossy(&listed);
    let is_there = |language: &&str| listed.lines().any(|line| line.trim() == *language);
    let mut wanted = options.ocr_languages.split('+');
    listed.starts_with(LIST_BEGINS).then(|| wanted.find(|language| !is_there(language)))?.map(str::to_owned)
}

/// A program by its path, or by its name in `PATH`.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_absolute() && found.is_file())
}
