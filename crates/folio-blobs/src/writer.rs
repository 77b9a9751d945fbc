//! Uploads of blobs to a bucket.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use folio_types::{Error, Result};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt as _, PutPayload};

use super::s3::request;
use folio_storage::BlobWriter;

/// An upload of a blob: the current part, and the multipart upload once the blob is larger than one part.
pub(super) struct Upload {
    store: AmazonS3,
    path: Path,
    /// The folder of the records of this blob's unfinished multipart uploads. A record is an empty object whose name is
    /// the id of the upload; scans of the store find uploads to abort by their records.
    records: Path,
    part_bytes: usize,
    buffer: BytesMut,
    sent: Option<MultipartUpload>,
    /// True if dropping the upload must not abort it: the blob is stored, or its completion was requested.
    settled: bool,
}

#[derive(Clone)]
struct MultipartUpload {
    id: MultipartId,
    parts: Vec<PartId>,
}

impl Upload {
    pub(super) fn new(store: AmazonS3, path: Path, records: Path, part_bytes: usize) -> Self {
        Self { store, path, records, part_bytes, buffer: BytesMut::new(), sent: None, settled: false }
    }

    /// Starts and records the multipart upload, unless it is started.
    async fn begin(&mut self) -> Result<()> {
        if self.sent.is_none() {
            let id =
                request("create_multipart", "an upload cannot be started", self.store.create_multipart(&self.path))
                    .await?;
            let record = self.records.clone().join(id.as_str());
            self.sent = Some(MultipartUpload { id, parts: Vec::new() });
            request("put", "an upload cannot be recorded", self.store.put(&record, PutPayload::new())).await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        self.begin().await?;
        let part = self.buffer.split().freeze();
        if let Some(sent) = &mut self.sent {
            let number = sent.parts.len();
            let put = self.store.put_part(&self.path, &sent.id, number, part.into());
            sent.parts.push(request("put_part", "a part of a blob cannot be stored", put).await?);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<()> {
        if self.sent.is_none() {
            let whole = self.buffer.split().freeze();
            request("put", "a blob cannot be stored", self.store.put(&self.path, whole.into())).await?;
            self.settled = true;
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.send().await?;
        }
        if let Some(sent) = self.sent.clone() {
            // If the outcome of the completion is unknown, the upload must not be aborted here: a later scan finds it
            // by its record.
            self.settled = true;
            let complete = self.store.complete_multipart(&self.path, &sent.id, sent.parts);
            request("complete_multipart", "a blob cannot be finished", complete).await?;
            // If the deletion fails, the scan removes the record.
            let _ = self.store.delete(&self.records.clone().join(sent.id.as_str())).await;
        }
        Ok(())
    }
}

#[async_trait]
impl BlobWriter for Upload {
    async fn write(&mut self, mut chunk: Bytes) -> Result<()> {
        if self.settled {
            return Err(Error::internal("a blob was written after it was finished"));
        }
        while !chunk.is_empty() {
            let missing = self.part_bytes.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&chunk.split_to(chunk.len().min(missing)));
            if self.buffer.len() >= self.part_bytes {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        self.complete().await
    }
}

impl Drop for Upload {
    /// Aborts the upload in the background. If that fails, a scan finds its record.
    fn drop(&mut self) {
        let Some(sent) = self.sent.take().filter(|_| !self.settled) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, path, record) =
            (self.store.clone(), self.path.clone(), self.records.clone().join(sent.id.as_str()));
        runtime.spawn(async move {
            if store.abort_multipart(&path, &sent.id).await.is_ok() {
                let _ = store.delete(&record).await;
            }
        });
    }
}
