//! Bytes of documents: streamed in and out, never whole in memory.

use async_trait::async_trait;
use bytes::Bytes;
use folio_types::{DocumentId, OrgId, Result};

/// Blobs by organization and document. They know no condition.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Begins a blob. It is there only once its writer has finished.
    async fn create(&self, org: &OrgId, id: &DocumentId) -> Result<Box<dyn BlobWriter>>;

    /// Opens a blob, or none.
    async fn open(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Box<dyn BlobReader>>>;

    /// Removes a blob; one that is not there is no error.
    async fn delete(&self, org: &OrgId, id: &DocumentId) -> Result<()>;
}

/// A blob that is being written. Dropped unfinished, it leaves nothing behind.
#[async_trait]
pub trait BlobWriter: Send {
    /// Appends.
    async fn write(&mut self, chunk: Bytes) -> Result<()>;

    /// Makes it durable and visible.
    async fn finish(self: Box<Self>) -> Result<()>;
}

/// A blob that is being read.
#[async_trait]
pub trait BlobReader: Send {
    /// The next piece (at most 256 KiB), or none at the end.
    async fn read(&mut self) -> Result<Option<Bytes>>;
}
