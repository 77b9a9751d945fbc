//! Extracts the text of a file by page.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use folio_resources::{CellPosition, TextState, WordBoxes};
use folio_storage::NewPage;
use folio_storage::value::TextGap;
use folio_types::{Error, Reason, Result, Secret};
use tokio::sync::Semaphore;

use crate::isolate::{ChildError, ChildProcesses, Files};
use crate::normal::{Bounded, bound, normalize};
use crate::ocr::{Installed, Ocr, OcrBudget};
use crate::options::{Isolation, Options};
use crate::plain;
use crate::sniff::{Route, route};
use crate::structure::{self, TextForm};
use crate::tiff;
use crate::worker::found::{self, Found};
use crate::worker::{Job, Line, OfficeSource, Task};

/// The field of an upload with the password of a protected PDF.
pub(crate) const PASSWORD_FIELD: &str = "description.password";

const UNREADABLE_PAGE: &str = "[The text of this page could not be read.]";
/// The text of a page that only OCR could read, in a protected PDF. pdftoppm takes a password only as an argument, which
/// every user of the machine can read.
const PROTECTED_IMAGE: &str = "[This page of a protected PDF has no text layer. Pages of protected files get no OCR.]";

#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub state: TextState,
    /// Empty unless the state is `Ready`.
    pub pages: Vec<NewPage>,
    /// True if there is no text because a program is not installed.
    pub lacks_program: bool,
}

impl Reading {
    pub(crate) fn without_text(state: TextState) -> Self {
        Self { state, pages: Vec::new(), lacks_program: false }
    }
}

/// An extracted page.
#[derive(Debug, PartialEq)]
struct ReadPage {
    /// None: the page could not be read.
    text: Option<String>,
    /// The boxes of the words. Empty: the format has none.
    boxes: WordBoxes,
    /// None: the text is complete.
    gap: Option<TextGap>,
    /// The position of the first cell of the table of a sheet. None: the page is no sheet, or the position is unknown.
    first_cell: Option<CellPosition>,
    /// The findings of the child process.
    found: Found,
}

impl ReadPage {
    /// A page whose text is missing. `note` states the reason.
    fn missing(note: String) -> Self {
        Self { text: Some(note), ..Self::unreadable() }
    }

    fn unreadable() -> Self {
        Self {
            text: None,
            boxes: WordBoxes::default(),
            gap: Some(TextGap::Missing),
            first_cell: None,
            found: Found::default(),
        }
    }

    fn recognized((text, boxes): (String, WordBoxes)) -> Self {
        Self { text: Some(text), boxes, gap: None, first_cell: None, found: Found::default() }
    }

    /// Replaces the text of the page, and keeps the findings on it.
    fn replace(&mut self, by: Self) {
        let found = std::mem::take(&mut self.found);
        *self = Self { found, ..by };
    }

    fn is_unreadable(&self) -> bool {
        self.text.is_none()
    }

    fn has_no_text(&self) -> bool {
        self.text.as_deref().is_none_or(is_blank)
    }
}

type Pages = Vec<ReadPage>;

enum ReadError {
    /// The file has no text, or Folio cannot extract it.
    NoText(String),
    /// The password is missing, wrong or not needed.
    Locked(String),
    /// A required program is not installed.
    NoProgram(String),
    /// The file is malformed or exceeds a limit.
    Failed(String),
    /// The file is not the cause.
    Internal(Error),
}

impl From<ChildError> for ReadError {
    fn from(error: ChildError) -> Self {
        match error {
            ChildError::Start(_) => Self::Internal(Error::unavailable(Reason::Overloaded, error.to_string())),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<std::io::Error> for ReadError {
    fn from(error: std::io::Error) -> Self {
        Self::Internal(Error::unavailable(Reason::StoreUnavailable, format!("cannot read a temporary file: {error}")))
    }
}

/// Reads files. Cheap to clone; clones share the OCR permits.
#[derive(Debug, Clone)]
pub struct TextReader {
    options: Arc<Options>,
    ocr_slots: Arc<Semaphore>,
}

impl TextReader {
    pub fn new(options: Options) -> Self {
        let ocr_slots = Arc::new(Semaphore::new(options.concurrency.max(1)));
        let options = options.with_child_memory(&[]);
        Self { options: Arc::new(options), ocr_slots }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.options.scratch()
    }

    /// Reads a file of type `media_type`. `folder` is for temporary files; the caller removes it. The state of the
    /// result describes problems of the file.
    ///
    /// # Errors
    /// A child process cannot be started, or the disk fails.
    pub async fn read(&self, media_type: &str, file: &Path, folder: &Path) -> Result<Reading> {
        let reader = self.file_reader(file, folder, None);
        let pages = match route(media_type) {
            Route::Pdf => reader.pdf().await,
            Route::Text => reader.text().await,
            Route::Office => reader.office(media_type).await,
            Route::Image => reader.image().await,
            Route::Tiff => reader.tiff().await,
            Route::Archive => Err(ReadError::NoText("an archive has no text of its own".to_owned())),
            Route::None => Err(ReadError::NoText(format!("Folio does not read the text of {media_type} files"))),
        };
        reading(self.result(TextForm::of(media_type), pages).await)
    }

    /// Reads a protected PDF with its password.
    ///
    /// # Errors
    /// `INVALID_FIELD` of `description.password`: the password is wrong or not needed. Others: a child process cannot be
    /// started, or the disk fails.
    pub(crate) async fn read_protected(&self, file: &Path, folder: &Path, password: &Secret) -> Result<Reading> {
        let pages = self.file_reader(file, folder, Some(password)).protected_pdf().await;
        match self.result(TextForm::Positioned, pages).await {
            Err(ReadError::Locked(reason)) => Err(Error::invalid_field(PASSWORD_FIELD, reason)),
            result => reading(result),
        }
    }

    /// Divides a text into pages, like that of a text file.
    pub(crate) async fn text(&self, text: &str) -> Result<Reading> {
        let plain::Pages { texts, is_cut } = plain::pages(text, self.options.max_pages, self.options.document_chars);
        let mut pages: Pages =
            texts.into_iter().map(|text| ReadPage::recognized((text, WordBoxes::default()))).collect();
        if let Some(last) = pages.last_mut().filter(|_| is_cut) {
            last.gap = Some(TextGap::Cut);
        }
        reading(self.finish(TextForm::Plain, pages).await)
    }

    fn file_reader<'a>(&'a self, file: &'a Path, folder: &'a Path, password: Option<&'a Secret>) -> FileReader<'a> {
        let children = ChildProcesses::new(self.options.worker.clone(), folder.to_owned());
        FileReader { options: &self.options, ocr_slots: &self.ocr_slots, file, folder, password, children }
    }

    async fn result(&self, form: TextForm, pages: Result<Pages, ReadError>) -> Result<Vec<NewPage>, ReadError> {
        self.finish(form, pages?).await
    }

    pub(crate) fn installed(&self) -> Installed {
        Installed::find(&self.options)
    }

    /// Checks, normalizes and bounds the pages, and derives their structure, on a thread for blocking work.
    async fn finish(&self, form: TextForm, pages: Pages) -> Result<Vec<NewPage>, ReadError> {
        let options = Arc::clone(&self.options);
        blocking(move || finish_pages(&options, form, pages)).await
    }
}

fn reading(result: Result<Vec<NewPage>, ReadError>) -> Result<Reading> {
    match result {
        Ok(pages) => Ok(Reading { state: TextState::Ready, pages, lacks_program: false }),
        Err(ReadError::NoText(reason)) => Ok(Reading::without_text(TextState::NoText(reason))),
        Err(ReadError::NoProgram(reason)) => {
            Ok(Reading { lacks_program: true, ..Reading::without_text(TextState::NoText(reason)) })
        }
        Err(ReadError::Locked(reason) | ReadError::Failed(reason)) => {
            Ok(Reading::without_text(TextState::Failed(reason)))
        }
        Err(ReadError::Internal(error)) => Err(error),
    }
}

/// Runs processing of a whole text, which would block an async thread for too long.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

fn finish_pages(options: &Options, form: TextForm, pages: Pages) -> Result<Vec<NewPage>, ReadError> {
    if pages.len() > options.max_pages as usize {
        let (count, max) = (pages.len(), options.max_pages);
        return Err(ReadError::Failed(format!("the file has {count} pages; at most {max} are accepted")));
    }
    if pages.iter().all(ReadPage::is_unreadable) {
        return Err(ReadError::Failed("the file is damaged: none of its pages could be read".to_owned()));
    }
    if pages.iter().all(ReadPage::has_no_text) {
        return Err(ReadError::NoText("the file contains no text".to_owned()));
    }
    let normal = |text: Option<String>| text.map_or_else(|| UNREADABLE_PAGE.to_owned(), |text| normalize(&text));
    let (mut texts, mut others) = (Vec::with_capacity(pages.len()), Vec::with_capacity(pages.len()));
    let mut found = Vec::with_capacity(pages.len());
    for mut page in pages {
        texts.push(normal(page.text.take()));
        found.push(std::mem::take(&mut page.found));
        others.push(page);
    }
    let bounded = bound(texts, options.page_chars, options.document_chars);
    let page = |(number, (bounded, read)): (u32, (Bounded, ReadPage))| {
        let ReadPage { mut boxes, gap, first_cell, .. } = read;
        // A word without a box would shift the boxes of all others.
        boxes.truncate(if boxes.len() < bounded.words { 0 } else { bounded.words });
        NewPage { boxes, gap: gap.max(bounded.gap), first_cell, ..NewPage::of_text(number, bounded.text) }
    };
    let mut pages: Vec<NewPage> = (1..).zip(bounded.into_iter().zip(others)).map(page).collect();
    structure::derive(form, &mut pages, found);
    Ok(pages)
}

fn is_blank(page: &str) -> bool {
    page.chars().all(|c| c.is_whitespace() || c.is_control())
}

struct FileReader<'a> {
    options: &'a Options,
    ocr_slots: &'a Semaphore,
    file: &'a Path,
    folder: &'a Path,
    password: Option<&'a Secret>,
    children: ChildProcesses,
}

impl FileReader<'_> {
    async fn ocr(&self, for_pdf: bool) -> Result<Ocr<'_>, String> {
        Ocr::start(self.options, &self.children, self.ocr_slots, for_pdf).await
    }

    async fn text(&self) -> Result<Pages, ReadError> {
        let (max_pages, document_chars) = (self.options.max_pages, self.options.document_chars);
        self.child(Job::Text { max_pages, document_chars }).await
    }

    async fn office(&self, media_type: &str) -> Result<Pages, ReadError> {
        self.child(Job::Office(office_source(self.options, media_type))).await
    }

    async fn pdf(&self) -> Result<Pages, ReadError> {
        let (max_pages, page_chars) = (self.options.max_pages, self.options.page_chars.saturating_add(1));
        let mut pages = self.child(Job::Pdf { max_pages, page_chars }).await?;
        if !pages.iter().any(ReadPage::has_no_text) {
            return Ok(pages);
        }
        let ocr = match self.ocr(true).await {
            Ok(ocr) => ocr,
            Err(reason) if pages.iter().all(ReadPage::has_no_text) && !pages.iter().all(ReadPage::is_unreadable) => {
                return Err(ReadError::NoProgram(reason.replacen(
                    "the file is an image",
                    "the file has no text layer",
                    1,
                )));
            }
            Err(_) => {
                // A page without text may be an image, whose text is missing without OCR.
                for page in pages.iter_mut().filter(|page| page.has_no_text()) {
                    page.gap = Some(TextGap::Missing);
                }
                return Ok(pages);
            }
        };
        let mut budget = OcrBudget::new(self.options);
        for (number, page) in (1..).zip(&mut pages) {
            if !page.has_no_text() {
                continue;
            }
            if let Err(mark) = budget.take("pages without a text layer") {
                page.replace(ReadPage::missing(mark));
                continue;
            }
            match ocr.pdf_page(self.file, self.folder, number).await {
                Ok((text, _)) if is_blank(&text) => {}
                Ok(recognized) => page.replace(ReadPage::recognized(recognized)),
                Err(error @ (ChildError::Start(_) | ChildError::Killed)) => return Err(error.into()),
                Err(error) => {
                    tracing::info!(%error, page = number, "OCR of a page failed");
                    page.replace(ReadPage::unreadable());
                }
            }
        }
        Ok(pages)
    }

    /// Reads the text layer of a PDF with its password.
    async fn protected_pdf(&self) -> Result<Pages, ReadError> {
        let (max_pages, page_chars) = (self.options.max_pages, self.options.page_chars.saturating_add(1));
        let mut pages = self.child(Job::Pdf { max_pages, page_chars }).await?;
        if pages.iter().all(ReadPage::has_no_text) && !pages.iter().all(ReadPage::is_unreadable) {
            let reason = "the protected PDF has no text layer: upload a copy without a password, which gets OCR";
            return Err(ReadError::NoText(reason.to_owned()));
        }
        for page in pages.iter_mut().filter(|page| page.text.as_deref().is_some_and(is_blank)) {
            page.replace(ReadPage::missing(PROTECTED_IMAGE.to_owned()));
        }
        Ok(pages)
    }

    async fn image(&self) -> Result<Pages, ReadError> {
        let ocr = self.ocr(false).await.map_err(ReadError::NoProgram)?;
        Ok(vec![ReadPage::recognized(ocr.image(self.file, None).await?)])
    }

    async fn tiff(&self) -> Result<Pages, ReadError> {
        let ocr = self.ocr(false).await.map_err(ReadError::NoProgram)?;
        let (path, max) = (self.file.to_owned(), self.options.max_pages);
        let counted = tokio::task::spawn_blocking(move || tiff::count_pages(&mut File::open(path)?, max)).await;
        let pages = counted.map_err(std::io::Error::other)??;
        let pages =
            pages.ok_or_else(|| ReadError::Failed("the file is damaged: it cannot be read as a TIFF".to_owned()))?;
        if pages > max {
            return Err(ReadError::Failed(format!("the file has more than {max} pages")));
        }
        let mut budget = OcrBudget::new(self.options);
        let mut read = Vec::new();
        for page in 1..=pages {
            read.push(match budget.take("pages") {
                Ok(()) => self.tiff_page(&ocr, page).await?,
                Err(mark) => ReadPage::missing(mark),
            });
        }
        Ok(read)
    }

    async fn tiff_page(&self, ocr: &Ocr<'_>, page: u32) -> Result<ReadPage, ReadError> {
        match ocr.image(self.file, Some(page)).await {
            Ok(recognized) => Ok(ReadPage::recognized(recognized)),
            Err(error @ (ChildError::Start(_) | ChildError::Killed)) => Err(error.into()),
            Err(_) => Ok(ReadPage::unreadable()),
        }
    }

    /// Runs a child process that reads the file, and parses its output.
    async fn child(&self, job: Job) -> Result<Pages, ReadError> {
        let task = task(self.options, job);
        // A character takes at most six bytes of JSON, the box of a word (and the blank after it) eleven; a page adds a few.
        let pages = u64::from(self.options.max_pages);
        let chars = (self.options.document_chars as u64).saturating_add(self.options.page_chars as u64);
        let max_output = (6 + 6) * chars + 192 * pages + found::OUTPUT_BYTES;
        let files = Files { input: Some(self.file), password: self.password, ..Files::default() };
        let output = self.children.run(&task, files, self.options.child_timeout(), max_output).await?;
        blocking(move || parse_output(&output)).await
    }
}

pub(crate) fn office_source(options: &Options, media_type: &str) -> OfficeSource {
    let (max_pages, document_chars) = (options.max_pages, options.document_chars);
    OfficeSource { media_type: media_type.to_owned(), max_pages, document_chars }
}

pub(crate) fn task(options: &Options, job: Job) -> Task {
    Task {
        memory_bytes: options.child_memory_bytes,
        cpu_seconds: options.child_cpu_seconds,
        file_bytes: 0,
        isolation_required: options.isolation == Isolation::Required,
        job,
    }
}

fn parse_output(output: &[u8]) -> Result<Pages, ReadError> {
    let truncated = || ReadError::Failed("the reader stopped before the end of the file".to_owned());
    let mut pages = Vec::new();
    for line in output.split(|byte| *byte == b'\n') {
        match serde_json::from_slice::<Line>(line).map_err(|_| truncated())? {
            Line::Page { text: None, .. } => pages.push(ReadPage::unreadable()),
            Line::Page { text, boxes, is_cut, first_cell, found } => {
                pages.push(ReadPage { text, boxes, gap: is_cut.then_some(TextGap::Cut), first_cell, found });
            }
            Line::Bookmarks { page, bookmarks } => {
                if let Some(page) = pages.get_mut(page as usize) {
                    page.found.bookmarks = bookmarks;
                }
            }
            Line::Refused { reason } => return Err(ReadError::Failed(reason)),
            Line::Locked { reason } => return Err(ReadError::Locked(reason)),
            Line::Image
            | Line::ModelImage { .. }
            | Line::Part { .. }
            | Line::RefusedPart { .. }
            | Line::FirstLevelBookmarks(_)
            | Line::RefusedLayers(_) => return Err(truncated()),
            Line::End => return Ok(pages),
        }
    }
    Err(truncated())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_beyond_the_limit_of_a_document_is_marked_as_cut() {
        let reader = TextReader::new(Options { document_chars: 200, ..Options::default() });
        let gaps = async |text: &str| -> Vec<_> {
            let reading = reader.text(text).await.unwrap();
            reading.pages.iter().map(|page| page.gap).collect()
        };
        assert_eq!(gaps(&"member.txt\n".repeat(50)).await, [Some(TextGap::Cut)]);
        assert_eq!(gaps("member.txt").await, [None]);
    }

    #[test]
    fn output_without_its_end_is_refused() {
        let complete = b"{\"page\":{\"text\":\"a\"}}\n{\"page\":{\"text\":null}}\n\
            {\"page\":{\"text\":\"b\",\"is_cut\":true}}\n\"end\"\n";
        let page = |text: &str, gap| ReadPage {
            text: Some(text.to_owned()),
            boxes: WordBoxes::default(),
            gap,
            first_cell: None,
            found: Found::default(),
        };
        let expected = [page("a", None), ReadPage::unreadable(), page("b", Some(TextGap::Cut))];
        assert!(matches!(parse_output(complete), Ok(pages) if pages == expected));
        for cut in 0..complete.len() - 2 {
            assert!(parse_output(complete.get(..cut).unwrap()).is_err(), "{cut}");
        }
        assert!(
            matches!(parse_output(b"{\"refused\":{\"reason\":\"x\"}}\n"), Err(ReadError::Failed(reason)) if reason == "x")
        );
        assert!(
            matches!(parse_output(b"{\"locked\":{\"reason\":\"x\"}}\n"), Err(ReadError::Locked(reason)) if reason == "x")
        );
        assert!(parse_output(b"\nrunning 0 tests\n").is_err());
    }
}
