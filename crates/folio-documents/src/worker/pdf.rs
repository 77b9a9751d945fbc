//! Text of a PDF by page, in the child process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Error, LoadOptions, output_doc_page};

use super::layout::Layout;
use super::{Line, Output, structured_invoice};

const DAMAGED: &str = "the file is damaged: it cannot be read as a PDF";
/// The reason of a protected PDF that was uploaded without its password.
const LOCKED: &str = "the PDF is protected by a password: delete it and upload it again with its password";

/// Writes the pages, and a further page with an attached structured invoice unless there are `max_pages`. A file that opens
/// without a password is refused with one, because only a file without a password gets OCR.
pub(super) fn read(
    input: &[u8],
    password: Option<&str>,
    max_pages: u32,
    page_chars: usize,
    output: &mut Output,
) -> io::Result<()> {
    let document = match (open(input), password) {
        (Opened::Document(document), None) => document,
        (Opened::Document(_), Some(_)) => return output.locked("is not needed: the PDF opens without one"),
        (Opened::Locked, None) => return output.locked(LOCKED),
        (Opened::Locked, Some(password)) => {
            match catch_unwind(|| Document::load_mem_with_options(input, LoadOptions::with_password(password))) {
                Ok(Ok(document)) => Box::new(document),
                Ok(Err(Error::InvalidPassword)) => return output.locked("does not open the PDF"),
                _ => return output.refused(DAMAGED),
            }
        }
        (Opened::Damaged, _) => return output.refused(DAMAGED),
    };
    let pages = u32::try_from(document.get_pages().len()).unwrap_or(u32::MAX);
    if pages == 0 {
        return output.refused("the file is damaged: it is a PDF without pages");
    }
    if pages > max_pages {
        return output.refused(format!("the PDF has {pages} pages; at most {max_pages} are accepted"));
    }
    for page in 1..=pages {
        output.line(&Line::Page { text: read_page(&document, page, page_chars) })?;
    }
    let invoice = || catch_unwind(AssertUnwindSafe(|| structured_invoice::read(&document, page_chars)));
    if pages < max_pages
        && let Ok(Some(text)) = invoice()
    {
        output.line(&Line::Page { text: Some(text) })?;
    }
    output.line(&Line::End)
}

/// A PDF that was opened without a password.
enum Opened {
    Document(Box<Document>),
    Locked,
    Damaged,
}

fn open(input: &[u8]) -> Opened {
    let Ok(Ok(mut document)) = catch_unwind(|| Document::load_mem(input)) else {
        return Opened::Damaged;
    };
    if document.is_encrypted() && !matches!(catch_unwind(AssertUnwindSafe(|| document.decrypt(""))), Ok(Ok(()))) {
        return Opened::Locked;
    }
    Opened::Document(Box::new(document))
}

/// None if the page is malformed.
fn read_page(document: &Document, page: u32, page_chars: usize) -> Option<String> {
    let mut layout = Layout::new(page_chars);
    let read = catch_unwind(AssertUnwindSafe(|| output_doc_page(document, &mut layout, page)));
    let is_complete = matches!(read, Ok(Ok(())));
    (is_complete || layout.is_full()).then(|| layout.into_text())
}
