//! Findings of the child process on a page, in addition to its text. The sums of their sizes are bounded ([`Budget`]), so that the
//! output of a child is bounded.

use folio_resources::{HEADINGS_MAX, IMAGES_PER_PAGE, LINK_TARGET_BYTES, LINKS_PER_PAGE, LinkTarget, PageArea};
use serde::{Deserialize, Serialize};

/// Maximum number of links of a document.
// proto: DocumentService.ListLinks "{} of a PDF file"
const LINKS_MAX: usize = 10_000;
/// Maximum number of images of a document.
// proto: DocumentService.ListImages "{} of a document"
const IMAGES_MAX: usize = 1_000;
/// Maximum size of all texts of the findings of a document, in bytes.
// proto: DocumentService.ListLinks "{} MiB together"
const TEXT_BYTES: usize = 2 * 1024 * 1024;
/// Maximum size of the findings of a document in the output: a byte of a text takes at most six bytes of JSON, and a finding has at most
/// 160 bytes in addition.
pub(crate) const OUTPUT_BYTES: u64 = (6 * TEXT_BYTES + 160 * (LINKS_MAX + IMAGES_MAX + HEADINGS_MAX)) as u64;

/// A link with its area on the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoundLink {
    pub(crate) area: PageArea,
    pub(crate) target: LinkTarget,
}

/// An image on the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FoundImage {
    /// The number of the image on the page, from 1.
    pub(crate) number: u32,
    /// Size in pixels. 0: unknown.
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// None: the format has no positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) area: Option<PageArea>,
    /// The alternative text of the image. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) description: String,
}

/// A bookmark that refers to the page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bookmark {
    /// From 1.
    pub(crate) level: u8,
    pub(crate) title: String,
    /// The position from the top of the page, in fractions of its height. None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) top: Option<f32>,
}

/// The findings on a page.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) links: Vec<FoundLink>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) images: Vec<FoundImage>,
    /// In the order of the document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) bookmarks: Vec<Bookmark>,
}

impl Found {
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty() && self.images.is_empty() && self.bookmarks.is_empty()
    }
}

/// The sizes that remain for the findings of a document.
#[derive(Debug)]
pub(crate) struct Budget {
    links: usize,
    images: usize,
    bookmarks: usize,
    text: usize,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { links: LINKS_MAX, images: IMAGES_MAX, bookmarks: HEADINGS_MAX, text: TEXT_BYTES }
    }

    /// Removes the findings that exceed the bounds of a page or of the document.
    pub(crate) fn take(&mut self, mut found: Found) -> Found {
        found.links.truncate(self.links.min(LINKS_PER_PAGE));
        found.images.truncate(self.images.min(IMAGES_PER_PAGE));
        found.bookmarks.truncate(self.bookmarks);
        let text = &mut self.text;
        let mut fits = |bytes: usize| match text.checked_sub(bytes) {
            Some(left) => {
                *text = left;
                true
            }
            None => false,
        };
        found.links.retain(|link| match &link.target {
            LinkTarget::Url(url) => url.len() <= LINK_TARGET_BYTES && fits(url.len()),
            LinkTarget::Page(_) => true,
        });
        found.images.retain(|image| fits(image.description.len()));
        found.bookmarks.retain(|bookmark| fits(bookmark.title.len()));
        self.links -= found.links.len();
        self.images -= found.images.len();
        self.bookmarks -= found.bookmarks.len();
        found
    }
}

#[cfg(test)]
mod tests {
    use folio_resources::BoundingBox;

    use super::*;

    #[test]
    fn the_findings_of_a_document_are_bounded() {
        let area = PageArea::of_fractions(BoundingBox { left: 0.12345, top: 0.2, right: 0.99999, bottom: 0.98765 });
        let found = || Found {
            links: vec![FoundLink { area, target: LinkTarget::Url("\u{1}".repeat(1_000)) }; 300],
            images: vec![
                FoundImage {
                    number: u32::MAX,
                    width: u32::MAX,
                    height: u32::MAX,
                    area: Some(area),
                    description: "\u{1}".to_owned()
                };
                100
            ],
            bookmarks: vec![Bookmark { level: 9, title: "\u{1}".repeat(20), top: Some(0.123_456_79) }; 50],
        };
        let mut budget = Budget::new();
        let (mut bytes, mut links, mut images) = (0, 0, 0);
        for _ in 0..100 {
            let taken = budget.take(found());
            assert!(taken.links.len() <= LINKS_PER_PAGE && taken.images.len() <= IMAGES_PER_PAGE);
            (links, images) = (links + taken.links.len(), images + taken.images.len());
            bytes += serde_json::to_vec(&taken).unwrap().len() as u64;
        }
        assert!(bytes <= OUTPUT_BYTES, "{bytes}");
        assert!(links <= LINKS_MAX && images <= IMAGES_MAX && links * 1_000 <= TEXT_BYTES);
        assert!(budget.take(Found::default()).is_empty());
    }
}
