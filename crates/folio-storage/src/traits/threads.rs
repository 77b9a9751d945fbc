//! Threads: headers and journals.

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader};
use folio_types::op::OpKey;
use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, RequestId, Result, ThreadId, Timestamp};

/// Threads.
#[async_trait]
pub trait ThreadStore: Send + Sync {
    /// Creates a thread unless one with its id exists; returns the stored header. Fails with `REQUEST_ID_CONFLICT` if
    /// the row of its request exists with another digest. Ids are never reused: the id of a removed thread yields
    /// `NOT_FOUND`, because the op rows of its calls outlive it and turns that start from number 1 again would match
    /// them.
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader>;

    /// Creates a thread together with its first append, whose fence is epoch 0 and version 0. Both are committed or
    /// neither is, so that no reader sees an empty thread. Refused if the thread exists, unless this batch created it.
    /// Errors as of [`ThreadStore::create`]; any other error leaves the outcome unknown: see
    /// [`ThreadStore::has_batch`]. CQL uses one batch in the thread's partition, conditional on the absence of the
    /// thread.
    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended>;

    /// Returns the header, or none.
    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>>;

    /// Appends to the journal under the fence, atomically. `NOT_FOUND` if the thread was removed; any other error
    /// leaves the outcome unknown: see [`ThreadStore::has_batch`].
    ///
    /// The row that the append `opens` is durable before the append can be. A transactional store writes both in one
    /// transaction. Otherwise the row is inserted first, and the append is sent after the insertion is acknowledged. A
    /// row whose append was refused or lost is harmless: the sweep removes it.
    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended>;

    /// Returns whether the append with this batch id is committed (its batch row exists).
    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool>;

    /// Returns entries from sequence number `from` on, in order, at most `limit`.
    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>>;

    /// Returns the row of a request id, or none.
    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>>;

    /// Returns a page of the headers of threads that are not ephemeral.
    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>>;

    /// Removes a thread with its journal. Idempotent: a missing thread is no error. The tombstone keeps `by`, the
    /// request that removed the thread.
    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()>;

    /// Returns the request that removed a thread. None if the thread expired, is live or never existed.
    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>>;

    /// Returns threads whose `expires_at` has passed, of all organizations, at most `limit`: a system index that no
    /// request reads.
    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>>;

    /// Sets `expires_at` of every thread that refers to a deleted resource, unless the thread expires earlier.
    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()>;

    /// Sets `expires_at` of a thread unless it expires earlier, if the header still matches the fence and no turn is
    /// open: a concurrent use keeps the thread. Returns whether it was set.
    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool>;
}
