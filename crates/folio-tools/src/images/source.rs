//! The port to the bytes of images of documents.

use async_trait::async_trait;
use bytes::Bytes;
use folio_resources::Document;
use folio_types::{Error, Reason, Result};

/// An image in the form that models receive, within [`MODEL_IMAGE_BYTES`](folio_types::limits::MODEL_IMAGE_BYTES) and
/// [`MODEL_IMAGE_PIXELS`](folio_types::limits::MODEL_IMAGE_PIXELS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadImage {
    pub media_type: &'static str,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    pub bytes: Bytes,
}

/// Reads images of documents. The document is one of the caller's organization.
#[async_trait]
pub trait ImageSource: Send + Sync {
    /// Returns an embedded image of a document by the number of its page and its number on the page.
    ///
    /// # Errors
    /// `UNSUPPORTED_TYPE` if the images of such a file have no bytes; `INVALID_FIELD` if the image cannot be read; retriable errors.
    async fn embedded(&self, document: &Document, page: u32, number: u32) -> Result<ReadImage>;
}

/// No image has bytes.
#[derive(Debug)]
pub struct NoImages;

#[async_trait]
impl ImageSource for NoImages {
    async fn embedded(&self, _: &Document, _: u32, _: u32) -> Result<ReadImage> {
        Err(Error::precondition(Reason::UnsupportedType, "this process reads no images of documents"))
    }
}
