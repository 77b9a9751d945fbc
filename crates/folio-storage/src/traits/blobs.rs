//! Bytes of documents: streamed in and out, never whole in memory.

use async_trait::async_trait;
use bytes::Bytes;
use folio_types::{DocumentId, OrgId, Result, Timestamp};
use futures::stream::BoxStream;

/// A blob as the scan finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    /// The tenant.
    pub org: OrgId,
    /// The document whose bytes these are; whether it is there the blob store does not know.
    pub document: DocumentId,
    /// When its bytes were written, by the clock of whatever holds them.
    pub modified_at: Timestamp,
}

/// Blobs by organization and document. They know no condition.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Begins a blob. It is there only once its writer has finished.
    async fn create(&self, org: &OrgId, id: &DocumentId) -> Result<Box<dyn BlobWriter>>;

    /// Opens a blob, or none.
    async fn open(&self, org: &OrgId, id: &DocumentId) -> Result<Option<Box<dyn BlobReader>>>;

    /// Removes a blob; one that is not there is no error.
    async fn delete(&self, org: &OrgId, id: &DocumentId) -> Result<()>;

    /// Removes every finished blob of an organization. One that is being written may be there afterwards.
    async fn delete_all(&self, org: &OrgId) -> Result<()>;

    /// All finished blobs of all organizations, in no order, each once: a system read, made by no request. It is read page
    /// by page as the stream is, so that it costs no memory for what is not taken yet. A blob that is made or removed
    /// meanwhile may be missing or there. The stream ends after its first error. What processes that died
    /// left unfinished goes with it, a day later.
    fn scan(&self) -> BoxStream<'static, Result<StoredBlob>>;
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
