//! Text of a PDF by page, in the child process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, output_doc_page};

use super::layout::Layout;
use super::{Line, Output};

pub(super) fn read(input: &[u8], max_pages: u32, page_chars: usize, output: &mut Output) -> io::Result<()> {
    let Ok(Ok(mut document)) = catch_unwind(|| Document::load_mem(input)) else {
        return output.refused("the file is damaged: it cannot be read as a PDF");
    };
    if document.is_encrypted() && !matches!(catch_unwind(AssertUnwindSafe(|| document.decrypt(""))), Ok(Ok(()))) {
        return output.refused("the PDF is protected by a password");
    }
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
    output.line(&Line::End)
}

/// None if the page is malformed.
fn read_page(document: &Document, page: u32, page_chars: usize) -> Option<String> {
    let mut layout = Layout::new(page_chars);
    let read = catch_unwind(AssertUnwindSafe(|| output_doc_page(document, &mut layout, page)));
    let is_complete = matches!(read, Ok(Ok(())));
    (is_complete || layout.is_full()).then(|| layout.into_text())
}
