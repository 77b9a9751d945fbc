//! Descriptions of the images of documents, as rows of a [`RowStore`]: one row per image, in a group per document.
//!
//! A description belongs to a generation of the text. Those of earlier generations are never returned, and are removed before images of a
//! new generation are described. A description can be written again by a model, so writes have no conditions.

use std::sync::Arc;

use folio_resources::ImageAnnotation;
use folio_types::{BlobId, DocumentId, OrgId, Result, Timestamp};

use super::{ResourceExecutor, RowStore};
use crate::value::{Stored as _, decode, encode};

fn group_of(document: &DocumentId) -> String {
    format!("{}/{document}", ImageAnnotation::KIND)
}

/// Returns the key of a row. Keys are in the order of the pages.
fn row_of(page: u32, number: u32) -> String {
    format!("{page:08}.{number:06}")
}

/// Returns the name under which a description counts as content of its document.
fn counted_as(row: &str) -> BlobId {
    BlobId::derive(&[ImageAnnotation::KIND, row])
}

/// The descriptions of the images of organizations. Cheap to clone.
#[derive(Clone)]
pub struct ImageAnnotationStore {
    rows: Arc<dyn RowStore>,
    resources: Arc<dyn ResourceExecutor>,
}

impl std::fmt::Debug for ImageAnnotationStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ImageAnnotationStore")
    }
}

impl ImageAnnotationStore {
    pub fn new(rows: Arc<dyn RowStore>, resources: Arc<dyn ResourceExecutor>) -> Self {
        Self { rows, resources }
    }

    /// Returns the descriptions of the images of a text, in the order of the pages.
    pub async fn list(&self, org: &OrgId, document: &DocumentId, text: Timestamp) -> Result<Vec<ImageAnnotation>> {
        let mut found = self.all(org, document).await?;
        found.retain(|annotation| annotation.text_generation == text);
        Ok(found)
    }

    /// Stores the description of an image, and replaces an earlier one. The write may be lost if the machine loses power.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk of the store has too little free space.
    pub async fn put(&self, org: &OrgId, document: &DocumentId, annotation: &ImageAnnotation) -> Result<()> {
        self.rows.check_space().await?;
        let (row, value) = (row_of(annotation.page, annotation.number), encode(annotation)?);
        self.count(org, document, &row, value.len() as u64, annotation.at).await?;
        self.rows.put(org, &group_of(document), &row, value).await
    }

    /// Removes the descriptions of the images of earlier texts. Idempotent.
    pub async fn remove_earlier(
        &self,
        org: &OrgId,
        document: &DocumentId,
        text: Timestamp,
        now: Timestamp,
    ) -> Result<()> {
        let group = group_of(document);
        for annotation in self.all(org, document).await? {
            if annotation.text_generation < text {
                let row = row_of(annotation.page, annotation.number);
                self.rows.remove(org, &group, &row).await?;
                self.count(org, document, &row, 0, now).await?;
            }
        }
        Ok(())
    }

    /// Removes the descriptions of the images of a deleted document, whose sizes the deletion has removed. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.rows.remove_group(org, &group_of(document)).await
    }

    async fn all(&self, org: &OrgId, document: &DocumentId) -> Result<Vec<ImageAnnotation>> {
        self.rows.list(org, &group_of(document)).await?.iter().map(|row| decode(row)).collect()
    }

    async fn count(&self, org: &OrgId, document: &DocumentId, row: &str, bytes: u64, at: Timestamp) -> Result<()> {
        self.resources.set_blob_bytes(org, document.as_str(), &counted_as(row), bytes, at).await
    }
}
