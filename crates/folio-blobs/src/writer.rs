//! One upload.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use folio_types::{Error, Result};
use object_store::aws::AmazonS3;
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt as _, PutPayload};

use super::s3::asked;
use folio_storage::BlobWriter;

/// A blob that is being written: the part that is filled now, and the upload once it is larger than one.
pub(super) struct Upload {
    store: AmazonS3,
    place: Path,
    /// Where the upload is noted.
    notes: Path,
    part_bytes: usize,
    buffer: BytesMut,
    sent: Option<Sent>,
    /// Nothing is to be aborted any more.
    settled: bool,
}

/// An upload in parts.
#[derive(Clone)]
struct Sent {
    id: MultipartId,
    parts: Vec<PartId>,
}

impl Upload {
    pub(super) fn new(store: AmazonS3, place: Path, notes: Path, part_bytes: usize) -> Self {
        Self { store, place, notes, part_bytes, buffer: BytesMut::new(), sent: None, settled: false }
    }

    /// Begins the upload in parts, and notes it.
    async fn begin(&mut self) -> Result<()> {
        if self.sent.is_none() {
            let id =
                asked("create_multipart", "an upload cannot begin", self.store.create_multipart(&self.place)).await?;
            let note = self.notes.clone().join(id.as_str());
            self.sent = Some(Sent { id, parts: Vec::new() });
            asked("put", "an upload cannot be noted", self.store.put(&note, PutPayload::new())).await?;
        }
        Ok(())
    }

    /// Sends what is in the buffer as a part.
    async fn send(&mut self) -> Result<()> {
        self.begin().await?;
        let part = self.buffer.split().freeze();
        if let Some(sent) = &mut self.sent {
            let number = sent.parts.len();
            let put = self.store.put_part(&self.place, &sent.id, number, part.into());
            sent.parts.push(asked("put_part", "a part of a blob cannot be stored", put).await?);
        }
        Ok(())
    }

    async fn complete(&mut self) -> Result<()> {
        if self.sent.is_none() {
            let whole = self.buffer.split().freeze();
            asked("put", "a blob cannot be stored", self.store.put(&self.place, whole.into())).await?;
            self.settled = true;
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.send().await?;
        }
        if let Some(sent) = self.sent.clone() {
            // Its outcome may stay unknown: from here on only the note leads to it.
            self.settled = true;
            let complete = self.store.complete_multipart(&self.place, &sent.id, sent.parts);
            asked("complete_multipart", "a blob cannot be finished", complete).await?;
            // A note that stays is found to lead nowhere.
            let _ = self.store.delete(&self.notes.clone().join(sent.id.as_str())).await;
        }
        Ok(())
    }
}

#[async_trait]
impl BlobWriter for Upload {
    async fn write(&mut self, mut chunk: Bytes) -> Result<()> {
        if self.settled {
            return Err(Error::internal("a blob was written after its end"));
        }
        while !chunk.is_empty() {
            let room = self.part_bytes.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&chunk.split_to(chunk.len().min(room)));
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
    /// Aborts in the background; should that fail, the note leads to it.
    fn drop(&mut self) {
        let Some(sent) = self.sent.take().filter(|_| !self.settled) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, place, note) = (self.store.clone(), self.place.clone(), self.notes.clone().join(sent.id.as_str()));
        runtime.spawn(async move {
            if store.abort_multipart(&place, &sent.id).await.is_ok() {
                let _ = store.delete(&note).await;
            }
        });
    }
}
