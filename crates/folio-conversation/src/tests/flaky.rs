//! A store of threads that loses answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader};
use folio_storage::ThreadStore;
use folio_types::op::OpKey;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Reason, RequestId, Result, ThreadId, Timestamp};

/// Fate of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lose {
    /// It is applied, and its answer is lost.
    Answer,
    /// It never arrives.
    Request,
    /// It arrives after it was looked for.
    Late,
    /// Neither this append nor any later one is written until the store is repaired.
    Writes,
    /// It is refused as larger than an append may be.
    Large,
}

/// The store, losing the `at`-th append in one way.
pub(super) struct Flaky {
    inner: Arc<dyn ThreadStore>,
    lose: Lose,
    at: usize,
    appends: AtomicUsize,
    late: Mutex<Option<Sent>>,
    mended: AtomicBool,
}

impl Flaky {
    pub(super) fn new(inner: Arc<dyn ThreadStore>, lose: Lose, at: usize) -> Arc<Self> {
        Arc::new(Self {
            inner,
            lose,
            at,
            appends: AtomicUsize::new(0),
            late: Mutex::default(),
            mended: AtomicBool::new(false),
        })
    }

    /// Writes from now on.
    pub(super) fn repair(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    /// Appends so far.
    pub(super) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    async fn carry(&self, sent: Sent) -> Result<Appended> {
        match sent {
            Sent::Append(org, id, append) => self.inner.append(&org, &id, append).await,
            Sent::Begin(thread, first) => self.inner.begin(*thread, first).await,
        }
    }

    async fn send(&self, sent: Sent) -> Result<Appended> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let broken = self.lose == Lose::Writes && number > self.at && !self.mended.load(Ordering::SeqCst);
        if number != self.at && !broken {
            return self.carry(sent).await;
        }
        match self.lose {
            Lose::Answer => drop(self.carry(sent).await),
            Lose::Request | Lose::Writes => {}
            Lose::Large => return Err(Error::invalid(Reason::TooLarge, "an append has so many bytes at most")),
            Lose::Late => *self.late.lock().unwrap() = Some(sent),
        }
        Err(Error::unavailable(Reason::StoreUnavailable, "the answer was lost"))
    }
}

/// An append on its way: to a thread, or with one.
enum Sent {
    Append(OrgId, ThreadId, Append),
    Begin(Box<NewThread>, Append),
}

#[async_trait]
impl ThreadStore for Flaky {
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader> {
        self.inner.create(thread).await
    }

    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended> {
        self.send(Sent::Begin(Box::new(thread), first)).await
    }

    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
        self.inner.header(org, id).await
    }

    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        self.send(Sent::Append(org.clone(), id.clone(), append)).await
    }

    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
        let is_committed = self.inner.has_batch(org, id, batch).await;
        let late = self.late.lock().unwrap().take();
        if let Some(sent) = late {
            let _ = self.carry(sent).await;
        }
        is_committed
    }

    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>> {
        self.inner.entries(org, id, from, limit).await
    }

    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>> {
        self.inner.request(org, id, request).await
    }

    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>> {
        self.inner.list(org, filter, page).await
    }

    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()> {
        self.inner.delete(org, id, by).await
    }

    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>> {
        self.inner.removed_by(org, id).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>> {
        self.inner.expired(now, limit).await
    }

    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
        self.inner.expire_referrers(org, id, at).await
    }

    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool> {
        self.inner.expire_unused(org, id, fence, at).await
    }
}
