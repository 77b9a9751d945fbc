//! Threads: headers and journals.

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader};
use folio_types::op::OpKey;
use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, RequestId, Result, ThreadId, Timestamp};

#[async_trait]
pub trait ThreadStore: Send + Sync {
    /// Creates a thread unless one with its id exists; returns the stored header. `REQUEST_ID_CONFLICT` if the row of
    /// its request exists with another digest. `NOT_FOUND` if a thread with this id was removed: ids are never reused,
    /// because the op rows of a removed thread's calls outlive it and would match the turns of a new thread, whose
    /// numbers start from 1 again.
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader>;

    /// Creates a thread with its first append, whose fence is epoch 0 and version 0. Both are committed atomically, so
    /// that no reader sees an empty thread. The write is refused if the thread exists, unless this batch created it.
    /// Errors are those of [`ThreadStore::create`]; any other error leaves the outcome unknown: see
    /// [`ThreadStore::has_batch`]. CQL uses one batch in the thread's partition, conditional on the absence of the
    /// thread.
    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended>;

    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>>;

    /// Appends to the journal under the fence, atomically. `NOT_FOUND` if the thread was removed; any other error
    /// leaves the outcome unknown: see [`ThreadStore::has_batch`].
    ///
    /// The row of `opens` is durable before the append is. A transactional store writes both in one transaction. Other
    /// stores insert the row first and send the append after the insertion is acknowledged. A row whose append was
    /// refused or lost is harmless: the sweep removes it.
    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended>;

    /// Returns whether the append with this batch id is committed.
    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool>;

    /// Returns at most `limit` entries from sequence number `from` on, in order.
    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>>;

    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>>;

    /// Lists the threads that are not ephemeral.
    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>>;

    /// Removes a thread with its journal. Idempotent: a missing thread is no error. The tombstone stores `by`, the
    /// request that removed the thread. The thread is deleted for all readers as soon as the tombstone is stored. A deletion that is
    /// interrupted afterwards leaves rows, which a repeated deletion removes.
    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()>;

    /// Removes a thread without a turn, or prevents the creation of a thread that does not exist: a later
    /// [`ThreadStore::create`] is `NOT_FOUND`. Returns false, and changes nothing, if a turn was accepted. Idempotent. The
    /// tombstone is conditional on the absence of a turn, so it and an acceptance exclude each other.
    async fn remove_unused(&self, org: &OrgId, id: &ThreadId) -> Result<bool>;

    /// Returns the request that removed a thread. None if the thread expired, is live or never existed.
    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>>;

    /// Returns at most `limit` threads of all organizations whose `expires_at` has passed: a system index that no
    /// request reads. Unreadable threads may be among them: the caller skips them, and they stay in the index. On the embedded
    /// store, deleted threads whose deletion left rows are among them, so that the caller deletes them again.
    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>>;

    /// Sets `expires_at` of every thread that refers to the deleted resource `id`, unless the thread expires earlier. Fails at the
    /// end if a thread is unreadable.
    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()>;

    /// Sets `expires_at` of a thread, unless it expires earlier, if the header still matches the fence and no turn is
    /// open. A concurrent use therefore keeps the thread. Returns whether it was set.
    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool>;
}
