//! Text of office documents, HTML files and mail, in the child process. xberg reads the formats.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use xberg::{
    ContentFilterConfig, ConversionOptions, ExtractInput, ExtractionConfig, OutputFormat, PageConfig, SecurityLimits,
};

use super::{Line, Output};
use crate::plain;
use crate::sniff::UNKNOWN_OFFICE;

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
    let pages = match pages.unwrap_or_else(|_| Err("the reader of the format failed".to_owned())) {
        Ok(Extracted::Pages(texts)) => plain::Pages { texts, is_cut: false },
        Ok(Extracted::Text(text)) => plain::pages(&text, max_pages, document_chars),
        Err(reason) => {
            let reason: String = reason.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
            return output.refused(format!("the file is damaged or exceeds a limit: {reason}"));
        }
    };
    let count = pages.texts.len();
    if count > max_pages as usize {
        return output.refused(format!("the file has {count} pages; at most {max_pages} are accepted"));
    }
    // The parent marks a text that is longer than the maximum.
    let mut left = document_chars.saturating_add(1);
    for (number, mut page) in (1..).zip(pages.texts) {
        let mut is_cut = pages.is_cut && number == count;
        if let Some((end, _)) = page.char_indices().nth(left) {
            page.truncate(end);
            is_cut = true;
        }
        left -= page.chars().count();
        output.page(page, is_cut)?;
    }
    output.line(&Line::End)
}

enum Extracted {
    /// The texts of sheets or slides.
    Pages(Vec<String>),
    Text(String),
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
    let input = ExtractInput::from_bytes(input, media_type, None);
    let mut result = runtime.block_on(xberg::extract(input, &config())).map_err(|error| error.to_string())?;
    if let Some(error) = result.errors.pop() {
        return Err(error.message);
    }
    let document = result.results.pop().ok_or("the file has no content")?;
    let is_divided = |pages: &Vec<xberg::PageContent>| {
        pages.len() > 1 || pages.iter().any(|page| page.sheet_name.is_some() || page.speaker_notes.is_some())
    };
    Ok(match document.pages.filter(is_divided) {
        None => Extracted::Text(without_escapes(&document.content)),
        Some(pages) => Extracted::Pages(pages.into_iter().map(text_of).collect()),
    })
}

fn text_of(page: xberg::PageContent) -> String {
    if let Some(name) = page.sheet_name {
        return format!("## {name}\n\n{}", page.content);
    }
    match page.speaker_notes {
        Some(notes) if !page.content.contains(notes.trim()) => format!("{}\n\n{notes}", page.content),
        _ => page.content,
    }
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

fn config() -> ExtractionConfig {
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
