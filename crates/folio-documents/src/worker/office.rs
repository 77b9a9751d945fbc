//! Text of office documents, HTML files and mail, in the child process. xberg reads the formats.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use folio_resources::{CellPosition, WordBoxes, sheet_text};
use xberg::{
    ContentFilterConfig, ConversionOptions, ExtractInput, ExtractionConfig, OutputFormat, PageConfig, SecurityLimits,
};

use super::found::Found;
use super::workbook::{Workbook, is_workbook};
use super::{Line, Output};
use crate::plain;
use crate::sniff::{UNKNOWN_OFFICE, is_mail};

/// Maximum number of cells of a workbook.
const CELLS_MAX: usize = 1_000_000;
/// Maximum number of uncompressed bytes of a file that is an archive.
const ARCHIVE_BYTES: usize = 256 * 1024 * 1024;
/// Maximum length of the reason of a failure, in characters.
const REASON_CHARS: usize = 200;

/// Writes a page for each sheet of a workbook and each slide of a presentation. Other documents have no pages of their own,
/// and their text is divided like that of a text file.
pub(super) fn read(
    input: Vec<u8>,
    media_type: &str,
    max_pages: u32,
    document_chars: usize,
    output: &mut Output,
) -> io::Result<()> {
    let pages = catch_unwind(AssertUnwindSafe(|| extract(input, media_type)));
    let (pages, is_cut) = match pages.unwrap_or_else(|_| Err("the reader of the format failed".to_owned())) {
        Ok(Extracted::Pages(pages)) => (pages, false),
        Ok(Extracted::Text(text)) => {
            let plain::Pages { texts, is_cut } = plain::pages(&text, max_pages, document_chars);
            (texts.into_iter().map(|text| OfficePage { text, first_cell: None }).collect(), is_cut)
        }
        Err(reason) => {
            let reason: String = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
            return output.refused(format!("the file is damaged or exceeds a limit: {reason}"));
        }
    };
    let count = pages.len();
    if count > max_pages as usize {
        return output.refused(format!("the file has {count} pages; at most {max_pages} are accepted"));
    }
    // The parent marks a text that is longer than the maximum.
    let mut left = document_chars.saturating_add(1);
    for (number, OfficePage { mut text, first_cell }) in (1..).zip(pages) {
        let mut is_cut = is_cut && number == count;
        if let Some((end, _)) = text.char_indices().nth(left) {
            text.truncate(end);
            is_cut = true;
        }
        left -= text.chars().count();
        let (boxes, found) = (WordBoxes::default(), Found::default());
        output.line(&Line::Page { text: Some(text), boxes, is_cut, first_cell, found })?;
    }
    output.line(&Line::End)
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
}

fn extract(input: Vec<u8>, media_type: &str) -> Result<Extracted, String> {
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
    let copy = is_workbook(&media_type).then(|| Arc::from(input.as_slice()));
    let config = config(&media_type);
    let input = ExtractInput::from_bytes(input, media_type, None);
    let mut result = runtime.block_on(xberg::extract(input, &config)).map_err(|error| error.to_string())?;
    if let Some(error) = result.errors.pop() {
        return Err(error.message);
    }
    let document = result.results.pop().ok_or("the file has no content")?;
    let is_divided = |pages: &Vec<xberg::PageContent>| {
        pages.len() > 1 || pages.iter().any(|page| page.sheet_name.is_some() || page.speaker_notes.is_some())
    };
    Ok(match document.pages.filter(is_divided) {
        None => Extracted::Text(without_escapes(&document.content)),
        Some(pages) => {
            let mut workbook = copy.and_then(Workbook::open);
            Extracted::Pages(pages.into_iter().map(|page| page_of(page, workbook.as_mut())).collect())
        }
    })
}

fn page_of(page: xberg::PageContent, workbook: Option<&mut Workbook>) -> OfficePage {
    if let Some(name) = page.sheet_name {
        // The text that the reader writes for a sheet escapes characters of values.
        let rows = page.tables.first().map_or(&[][..], |table| table.cells.as_slice());
        let first_cell = workbook.and_then(|workbook| workbook.first_cell(&name, rows));
        return OfficePage { text: sheet_text(&name, rows), first_cell };
    }
    let text = match page.speaker_notes {
        Some(notes) if !page.content.contains(notes.trim()) => format!("{}\n\n{notes}", page.content),
        _ => page.content,
    };
    OfficePage { text, first_cell: None }
}

/// Restores numbers at the start of a line, such as `1.`, which the writer of Markdown escapes.
fn without_escapes(text: &str) -> String {
    let lines = text.split('\n').map(|line| match line.split_once("\\.") {
        Some((number, rest)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{number}.{rest}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
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
