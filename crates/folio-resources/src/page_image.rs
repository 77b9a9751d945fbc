//! Images of pages.

use folio_types::{BlobId, Error, Result};

/// Accepted resolutions in dots per inch. Few values bound the number of stored images.
const RESOLUTIONS: [u32; 4] = [50, 100, 150, MAX_DPI];
/// The highest resolution in dots per inch.
// proto: GetPageImageRequest.dpi "50, 100, 150 or {}."
pub const MAX_DPI: u32 = 200;
/// The resolution of a request that states none.
// proto: GetPageImageRequest.dpi "0: {}."
const DEFAULT_DPI: u32 = 100;
/// Maximum width and height of an image in pixels. A larger page has a lower resolution.
// proto: GetPageImageRequest.dpi "at most {} pixels"
const MAX_PIXELS: u32 = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ImageFormat {
    #[default]
    Png,
    /// Lossless WebP.
    WebP,
}

impl ImageFormat {
    pub const ALL: [Self; 2] = [Self::Png, Self::WebP];

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::WebP => "image/webp",
        }
    }
}

/// An image of a page of a document. Its fields determine its pixels, because the bytes of a document never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageImage {
    page: u32,
    dpi: u32,
    format: ImageFormat,
}

impl PageImage {
    /// `page`: from 1. `dpi`: one of the accepted resolutions, or 0 for 100.
    ///
    /// # Errors
    /// `INVALID_FIELD` if the page is 0 or the resolution is not accepted.
    pub fn new(page: u32, dpi: u32, format: ImageFormat) -> Result<Self> {
        if page == 0 {
            return Err(Error::invalid_field("page", "the first page is 1"));
        }
        let dpi = if dpi == 0 { DEFAULT_DPI } else { dpi };
        if !RESOLUTIONS.contains(&dpi) {
            let problem = format!("must be one of {RESOLUTIONS:?}, or 0 for {DEFAULT_DPI}");
            return Err(Error::invalid_field("dpi", problem));
        }
        Ok(Self { page, dpi, format })
    }

    /// The number of the page, from 1.
    pub fn page(&self) -> u32 {
        self.page
    }

    pub fn dpi(&self) -> u32 {
        self.dpi
    }

    pub fn format(&self) -> ImageFormat {
        self.format
    }

    /// Returns the id of the blob that stores the image, among the blobs of its document.
    pub fn blob(&self) -> BlobId {
        BlobId::derive(&["page image", self.format.media_type(), &self.dpi.to_string(), &self.page.to_string()])
    }

    /// Returns the factor from the unit of a page (`unit_dpi` of them are an inch) to pixels. `size`: width and height of
    /// the page.
    pub fn scale(&self, unit_dpi: f32, size: (f32, f32)) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "both numbers are small")]
        let (dpi, max) = (self.dpi as f32, MAX_PIXELS as f32);
        let scale = dpi / unit_dpi;
        let longest = size.0.max(size.1);
        if longest * scale > max { max / longest } else { scale }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_accepted_images_of_a_page_have_different_blobs() {
        let mut blobs = HashSet::new();
        for (page, format) in [1, 2, 11].into_iter().flat_map(|page| ImageFormat::ALL.map(|format| (page, format))) {
            for dpi in RESOLUTIONS {
                assert!(blobs.insert(PageImage::new(page, dpi, format).unwrap().blob()), "{page} {dpi}");
            }
            assert_eq!(PageImage::new(page, 0, format), PageImage::new(page, DEFAULT_DPI, format));
        }
        for (page, dpi, field) in [(0, 100, "page"), (1, 1, "dpi"), (1, 201, "dpi"), (1, u32::MAX, "dpi")] {
            let error = PageImage::new(page, dpi, ImageFormat::Png).unwrap_err();
            assert_eq!(error.violations[0].field, field);
        }
    }

    #[test]
    fn large_pages_have_a_lower_resolution() {
        let image = PageImage::new(1, 200, ImageFormat::Png).unwrap();
        let scaled = |size: (f32, f32)| (size.0 * image.scale(72.0, size), size.1 * image.scale(72.0, size));
        assert_eq!(scaled((72.0, 144.0)), (200.0, 400.0));
        assert_eq!(scaled((8_192.0, 4_096.0)), (4_096.0, 2_048.0));
        assert_eq!(scaled((1.0, 14_400.0)).1, 4_096.0);
    }
}
