//! Removal of orphaned bytes, which no document refers to.

use folio_resources::Document;
use folio_storage::{StoredBlob, Stores};
use folio_types::{Result, Timestamp, limits};
use futures::StreamExt as _;

use super::Schedule;
use crate::active_uploads::ActiveUploads;

pub(super) struct Orphans {
    pub(super) stores: Stores,
    pub(super) active_uploads: ActiveUploads,
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
            if blob.modified_at < before && self.remove(&blob).await? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Removes a blob unless it has a document or an active upload. Returns true if it was removed.
    async fn remove(&self, blob: &StoredBlob) -> Result<bool> {
        let Some(_guard) = self.active_uploads.reserve(&blob.document) else { return Ok(false) };
        if self.stores.of::<Document>().get(&blob.org, &blob.document).await?.is_some() {
            return Ok(false);
        }
        self.stores.blobs.delete(&blob.org, &blob.document).await?;
        Ok(true)
    }
}
