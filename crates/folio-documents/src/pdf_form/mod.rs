//! The PDF rendition of a document: the file that readers of PDF files show for a document of another type.
//!
//! | document | PDF rendition |
//! |---|---|
//! | image | a page for each image, made in a child process ([`crate::worker`]) |
//! | office document, with `documents.soffice` | made by LibreOffice in a child process |
//! | any other with text | its extracted text in a monospaced font, without its layout |

mod layout;
mod writer;

use std::io::{self, Write};

pub(crate) use writer::PdfWriter;

/// Writes pages of text as a PDF file. Each page of text begins on a page of its own.
pub(crate) fn write_text<W: Write>(out: W, pages: impl IntoIterator<Item = String>) -> io::Result<W> {
    let mut pdf = PdfWriter::new(out)?;
    for page in pages {
        if !pdf.add_text(&page)? {
            break;
        }
    }
    pdf.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts of a PDF file by page.
    fn texts(file: &[u8]) -> Vec<String> {
        let file = lopdf::Document::load_mem(file).unwrap();
        file.get_pages().keys().map(|page| file.extract_text(&[*page]).unwrap()).collect()
    }

    #[test]
    fn each_page_of_text_begins_on_a_page() {
        let long = (0..70).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n");
        let file = write_text(Vec::new(), ["First (page) \\ of 2".to_owned(), long, String::new()]).unwrap();
        assert!(file.starts_with(b"%PDF-1.4") && file.ends_with(b"%%EOF\n"));
        let pages = texts(&file);
        assert_eq!(pages.len(), 4, "the long page needs two");
        assert!(pages[0].contains("First (page) \\ of 2"), "{}", pages[0]);
        assert!(pages[1].contains("line 0") && pages[2].contains("line 69"), "{pages:?}");
        assert_eq!(pages[3].trim(), "");
    }

    #[test]
    fn a_document_without_text_has_a_page() {
        let file = write_text(Vec::new(), []).unwrap();
        assert_eq!(texts(&file).len(), 1);
    }

    #[test]
    fn the_number_of_pages_is_bounded() {
        let pages = (0..writer::PAGES_MAX + 5).map(|_| "x".to_owned());
        let file = lopdf::Document::load_mem(&write_text(Vec::new(), pages).unwrap()).unwrap();
        let found = file.get_pages();
        assert_eq!(found.len(), writer::PAGES_MAX);
        let last = u32::try_from(writer::PAGES_MAX).unwrap();
        assert!(file.extract_text(&[last]).unwrap().contains("cut here"));
    }
}
