//! Bytes of documents: streamed in and out, never whole in memory.

use async_trait::async_trait;
use bytes::Bytes;
use folio_types::{BlobKey, DocumentId, OrgId, Result, Timestamp};
use futures::stream::BoxStream;

/// A finished blob that a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// The blob store does not check whether the document exists.
    pub key: BlobKey,
    /// Time of the write, by the clock of the blob store.
    pub modified_at: Timestamp,
}

/// Blobs by organization, document and upload. No operation is conditional.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Starts a blob, which becomes visible when its writer finishes.
    async fn create(&self, key: &BlobKey) -> Result<Box<dyn BlobWriter>>;

    /// Returns None if no finished blob exists.
    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>>;

    /// Removes a blob. Idempotent: a missing blob is no error.
    async fn delete(&self, key: &BlobKey) -> Result<()>;

    /// Removes every finished blob of a document. A blob that is being written may remain.
    async fn delete_document(&self, org: &OrgId, id: &DocumentId) -> Result<()>;

    /// Removes every finished blob of an organization. A blob that is being written may remain.
    async fn delete_all(&self, org: &OrgId) -> Result<()>;

    /// Returns all finished blobs of all organizations, in no order, each once: a system read that no request makes.
    /// The stream reads the store page by page as it is consumed. A blob that is written or removed meanwhile may be
    /// missing. The stream ends after its first error. The scan also removes unfinished blobs of dead processes after
    /// one day.
    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>>;
}

/// A blob that is being written. Dropping it unfinished removes the written part.
#[async_trait]
pub trait BlobWriter: Send {
    async fn write(&mut self, chunk: Bytes) -> Result<()>;

    /// Makes the blob durable and visible.
    async fn finish(self: Box<Self>) -> Result<()>;
}

#[async_trait]
pub trait BlobReader: Send {
    /// Returns the next chunk (at most 256 KiB). None at the end.
    async fn read(&mut self) -> Result<Option<Bytes>>;
}
