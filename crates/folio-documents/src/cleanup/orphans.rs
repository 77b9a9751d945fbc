//! Removal of orphaned bytes, which no document refers to and no live thread contains, and of page images after a day.

use folio_resources::Document;
use folio_storage::{StoredBlob, Stores};
use folio_types::{BlobKey, Result, Timestamp, limits};
use futures::StreamExt as _;

use super::Schedule;

pub(super) struct Orphans {
    pub(super) stores: Stores,
    pub(super) schedule: Schedule,
}

impl Orphans {
    pub(super) async fn run(&mut self, now: Timestamp) {
        if !self.schedule.is_due(now) {
            return;
        }
        match self.sweep(now).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed orphaned bytes"),
            Err(error) => tracing::warn!(%error, "the search for orphaned bytes failed"),
        }
    }

    /// Returns the number of removed blobs.
    async fn sweep(&self, now: Timestamp) -> Result<u64> {
        let before = now.checked_sub(limits::DAY).unwrap_or(Timestamp::MIN);
        let mut removed = 0;
        let mut blobs = self.stores.blobs.scan();
        while let Some(blob) = blobs.next().await {
            let blob = blob?;
            if blob.modified_at < before {
                let result = self.remove(&blob, now).await;
                // An unreadable document keeps its bytes, and does not end the search.
                let StoredBlob { key: BlobKey { org, document, .. }, .. } = &blob;
                let is_removed = self.stores.unreadable.skip(format_args!("document {document} of {org}"), result)?;
                removed += u64::from(is_removed == Some(true));
            }
        }
        Ok(removed)
    }

    /// Removes a blob unless its document names it, or it is an image of a live thread. Returns true if it was removed.
    async fn remove(&self, StoredBlob { key, .. }: &StoredBlob, now: Timestamp) -> Result<bool> {
        let document = self.stores.of::<Document>().get(&key.org, &key.document).await?;
        if document.is_some_and(|document| document.blob == key.blob) {
            return Ok(false);
        }
        if let Some(is_removed) = self.stores.message_images().remove_orphan(key, now).await? {
            return Ok(is_removed);
        }
        self.stores.of::<Document>().set_blob_bytes(&key.org, &key.document, &key.blob, 0, now).await?;
        self.stores.blobs.delete(key).await?;
        Ok(true)
    }
}
