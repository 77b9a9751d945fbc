//! The images of documents for the tools of a node.

use async_trait::async_trait;
use folio_documents::{MODEL_IMAGE_TYPE, ModelImage, PageRenderer};
use folio_resources::Document;
use folio_tools::images::{ImageSource, ReadImage};
use folio_types::Result;

/// Reads embedded images in the child processes that render pages.
pub struct DocumentImages(pub PageRenderer);

#[async_trait]
impl ImageSource for DocumentImages {
    async fn embedded(&self, document: &Document, page: u32, number: u32) -> Result<ReadImage> {
        let read = self.0.embedded_for_model(&document.org, &document.id, (page, number)).await?;
        let ModelImage { width, height, bytes } = read;
        Ok(ReadImage { media_type: MODEL_IMAGE_TYPE, width, height, bytes })
    }
}
