//! Renditions: other forms of a document's file, which are made on demand.

use folio_types::BlobId;

use crate::{Document, PageImage};

/// A form of a document's file that a node makes and the blob store caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rendition {
    /// An image of a page.
    Page(PageImage),
    /// A PDF file with the content of the document.
    Pdf,
    /// An image that is embedded in a PDF file, as a PNG image.
    Embedded {
        /// The number of the page, from 1.
        page: u32,
        /// The number of the image on its page, from 1.
        number: u32,
    },
}

impl Rendition {
    /// Returns the id of the blob that stores the rendition, among the blobs of its document. The PDF rendition of an office document
    /// contains its text, so that the id changes when the text is extracted again.
    pub fn blob(&self, document: &Document) -> BlobId {
        match self {
            Self::Page(image) => image.blob(),
            Self::Embedded { page, number } => {
                BlobId::derive(&["embedded image", &page.to_string(), &number.to_string()])
            }
            Self::Pdf => {
                let generation = document.text_generation.map(|at| at.to_string()).unwrap_or_default();
                BlobId::derive(&["pdf", &generation])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{at, document};
    use crate::{ImageFormat, Resource as _, TextState, text_record_of};

    #[test]
    fn the_pdf_form_has_another_blob_after_its_text_was_extracted_again() {
        let read = |seconds| {
            let at = at() + std::time::Duration::from_secs(seconds);
            document().with_text(&text_record_of(None, TextState::Ready, 1, false, at))
        };
        let blobs = [document(), read(1), read(2)].map(|document| Rendition::Pdf.blob(&document));
        assert!(blobs[0] != blobs[1] && blobs[1] != blobs[2] && blobs[0] != blobs[2]);
        let image = PageImage::new(1, 100, ImageFormat::Png).unwrap();
        assert_eq!(Rendition::Page(image).blob(&read(1)), Rendition::Page(image).blob(&read(2)));
        let embedded = |page, number| Rendition::Embedded { page, number }.blob(&read(1));
        assert!(embedded(1, 12) != embedded(11, 2) && embedded(1, 1) != Rendition::Page(image).blob(&read(1)));
    }
}
