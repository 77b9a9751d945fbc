//! Text of office documents, HTML files and mail, in the child process. xberg reads the formats.

use std::collections::BTreeMap;
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;

use folio_resources::{CellPosition, WordBoxes, sheet_text};
use image::RgbImage;
use xberg::{
    ContentFilterConfig, ConversionOptions, ExtractInput, ExtractionConfig, OutputFormat, PageConfig, SecurityLimits,
};

use super::embedded_image::missing;
use super::found::Budget;
use super::office_image::Pictures;
use super::workbook::{Workbook, is_workbook};
use super::{Line, OfficeSource, Output, caught};
use crate::plain;
use crate::sniff::{UNKNOWN_OFFICE, is_mail};
use crate::structure::{ImageReference, image_references};

/// Maximum number of cells of a workbook.
const CELLS_MAX: usize = 1_000_000;
/// Maximum number of uncompressed bytes of a file that is an archive.
const ARCHIVE_BYTES: usize = 256 * 1024 * 1024;
/// Maximum size of a package whose images are measured when its text is read, in bytes: a second copy of a larger one could exceed
/// the memory of the process.
const MEASURED_BYTES: usize = 64 * 1024 * 1024;
/// Maximum length of the reason of a failure, in characters.
const REASON_CHARS: usize = 200;

/// Writes a page for each sheet of a workbook and each slide of a presentation. Other documents have no pages of their own,
/// and their text is divided like that of a text file.
pub(super) fn read(input: Vec<u8>, source: &OfficeSource, output: &mut Output) -> io::Result<()> {
    let OfficeFile { pages, is_cut, sheets, mut pictures } = match open(input, source, MEASURED_BYTES) {
        Ok(file) => file,
        Err(reason) => return output.refused(reason),
    };
    let count = pages.len();
    let max_pages = source.max_pages;
    if count > max_pages as usize {
        return output.refused(format!("the file has {count} pages; at most {max_pages} are accepted"));
    }
    // The parent marks a text that is longer than the maximum.
    let mut left = source.document_chars.saturating_add(1);
    let mut budget = Budget::new();
    for (number, page) in (1..).zip(pages) {
        let found = pictures.found(&images_of(&page, &sheets), &mut budget);
        let OfficePage { mut text, first_cell, .. } = page;
        let mut is_cut = is_cut && number == count;
        if let Some((end, _)) = text.char_indices().nth(left) {
            text.truncate(end);
            is_cut = true;
        }
        left -= text.chars().count();
        output.line(&Line::Page { text: Some(text), boxes: WordBoxes::default(), is_cut, first_cell, found })?;
    }
    output.line(&Line::End)
}

/// Returns an image of a page by its number, both from 1.
pub(super) fn image(input: Vec<u8>, source: &OfficeSource, page: u32, number: u32) -> Result<RgbImage, String> {
    let OfficeFile { pages, sheets, mut pictures, .. } = open(input, source, usize::MAX)?;
    let found = (page as usize).checked_sub(1).and_then(|at| pages.get(at));
    let images = found.map(|page| images_of(page, &sheets)).unwrap_or_default();
    let image = (number as usize).checked_sub(1).and_then(|at| images.get(at));
    pictures.decode(&image.ok_or_else(|| missing(page, number))?.target)
}

/// A file with its pages.
struct OfficeFile {
    pages: Vec<OfficePage>,
    /// True: text at the end of the last page was dropped.
    is_cut: bool,
    /// The images of the sheets of a workbook, by name.
    sheets: BTreeMap<String, Vec<ImageReference>>,
    pictures: Pictures,
}

/// Reads the pages of a file. `package_bytes`: maximum size of a package whose images are opened. The error is a reason for users.
fn open(input: Vec<u8>, source: &OfficeSource, package_bytes: usize) -> Result<OfficeFile, String> {
    let read = caught("the reader of the format failed", || {
        let (extracted, mut pictures) = extract(input, &source.media_type, package_bytes)?;
        let (pages, is_cut) = match extracted {
            Extracted::Pages(pages) => (pages, false),
            Extracted::Text(text) => {
                let plain::Pages { texts, is_cut } = plain::pages(&text, source.max_pages, source.document_chars);
                let page = |text| OfficePage { text, first_cell: None, sheet: None };
                (texts.into_iter().map(page).collect(), is_cut)
            }
        };
        let has_sheets = pages.iter().any(|page: &OfficePage| page.sheet.is_some());
        let sheets = if has_sheets { pictures.of_sheets() } else { BTreeMap::new() };
        Ok(OfficeFile { pages, is_cut, sheets, pictures })
    });
    read.map_err(|reason| {
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
        format!("the file is damaged or exceeds a limit: {reason}")
    })
}

/// Returns the images of a page in order.
fn images_of(page: &OfficePage, sheets: &BTreeMap<String, Vec<ImageReference>>) -> Vec<ImageReference> {
    match &page.sheet {
        Some(name) => sheets.get(name).cloned().unwrap_or_default(),
        // A defect of the parser costs only the images.
        None => catch_unwind(|| image_references(&page.text)).unwrap_or_default(),
    }
}

enum Extracted {
    /// Sheets or slides.
    Pages(Vec<OfficePage>),
    Text(String),
}

struct OfficePage {
    text: String,
    /// The position of the first cell of the table of a sheet. None: the page is no sheet, or the position is unknown.
    first_cell: Option<CellPosition>,
    /// The name of the sheet. None: the page is no sheet.
    sheet: Option<String>,
}

fn extract(input: Vec<u8>, media_type: &str, package_bytes: usize) -> Result<(Extracted, Pictures), String> {
    let (input, media_type) = match media_type {
        // The reader expects UTF-8.
        "text/html" => (plain::decode(&input).into_owned().into_bytes(), media_type.to_owned()),
        UNKNOWN_OFFICE => {
            let found = xberg::detect_mime_type_from_bytes(&input).map_err(|error| error.to_string())?;
            (input, found)
        }
        media_type => (input, media_type.to_owned()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let is_package = input.starts_with(b"PK") && input.len() <= package_bytes;
    let copy: Option<Arc<[u8]>> = (is_package || is_workbook(&media_type)).then(|| Arc::from(input.as_slice()));
    let config = config(&media_type);
    let type_of_file = media_type.clone();
    let input = ExtractInput::from_bytes(input, media_type, None);
    let mut result = runtime.block_on(xberg::extract(input, &config)).map_err(|error| error.to_string())?;
    if let Some(error) = result.errors.pop() {
        return Err(error.message);
    }
    let document = result.results.pop().ok_or("the file has no content")?;
    let images = document.images.unwrap_or_default().into_iter().map(|image| image.data).collect();
    let pictures = Pictures::open(copy.clone().filter(|_| is_package), &type_of_file, images);
    let is_divided = |pages: &Vec<xberg::PageContent>| {
        pages.len() > 1 || pages.iter().any(|page| page.sheet_name.is_some() || page.speaker_notes.is_some())
    };
    let extracted = match document.pages.filter(is_divided) {
        None => Extracted::Text(without_escapes(&document.content)),
        Some(pages) => {
            let mut workbook = copy.filter(|_| is_workbook(&type_of_file)).and_then(Workbook::open);
            Extracted::Pages(pages.into_iter().map(|page| page_of(page, workbook.as_mut())).collect())
        }
    };
    Ok((extracted, pictures))
}

fn page_of(page: xberg::PageContent, workbook: Option<&mut Workbook>) -> OfficePage {
    if let Some(name) = page.sheet_name {
        // The text that the reader writes for a sheet escapes characters of values.
        let rows = page.tables.first().map_or(&[][..], |table| table.cells.as_slice());
        let first_cell = workbook.and_then(|workbook| workbook.first_cell(&name, rows));
        return OfficePage { text: sheet_text(&name, rows), first_cell, sheet: Some(name) };
    }
    let text = match page.speaker_notes {
        Some(notes) if !page.content.contains(notes.trim()) => format!("{}\n\n{notes}", page.content),
        _ => page.content,
    };
    OfficePage { text: with_images(&text), first_cell: None, sheet: None }
}

/// Restores numbers at the start of a line, such as `1.`, which the writer of Markdown escapes.
fn without_escapes(text: &str) -> String {
    let lines = text.split('\n').map(|line| match line.split_once("\\.") {
        Some((number, rest)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number}.{rest}")
        }
        _ => line.to_owned(),
    });
    with_images(&lines.collect::<Vec<_>>().join("\n"))
}

/// Restores the marks of images on slides, which the writer of Markdown escapes.
fn with_images(text: &str) -> String {
    text.replace("\\![", "![")
}

/// Attachments of a mail are documents of their own, so that the text of the mail only names them.
fn config(media_type: &str) -> ExtractionConfig {
    ExtractionConfig {
        use_cache: false,
        disable_ocr: true,
        // Repeated lines of a document are content.
        enable_quality_processing: false,
        content_filter: Some(ContentFilterConfig {
            include_headers: true,
            include_footers: true,
            include_footnotes: true,
            strip_repeating_text: false,
            ..ContentFilterConfig::default()
        }),
        pages: Some(PageConfig { extract_pages: true, ..PageConfig::default() }),
        output_format: OutputFormat::Markdown,
        html_options: Some(ConversionOptions { extract_metadata: false, ..ConversionOptions::default() }),
        // A value must have the same characters as in the file.
        escape_markdown: false,
        max_archive_depth: if is_mail(media_type) { 0 } else { ExtractionConfig::default_archive_depth() },
        // The limit of processor time ends the process.
        extraction_timeout_secs: None,
        security_limits: Some(SecurityLimits {
            max_archive_size: ARCHIVE_BYTES,
            max_content_size: ARCHIVE_BYTES,
            max_table_cells: CELLS_MAX,
            ..SecurityLimits::default()
        }),
        ..ExtractionConfig::default()
    }
}
