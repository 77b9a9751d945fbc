//! Layers over stores that make an append fail, a thread unreadable, or a row of an ended turn stay.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_history::thread::{Append, Appended, NewThread, OpenTurnRow, ThreadHeader};
use folio_metering::AbandonedCalls;
use folio_storage::{OpenTurnStore, ThreadStore};
use folio_storage_conformance::layer::ThreadLayer;

use super::*;

/// The way in which an append fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The append is committed, but the response is lost.
    Answer,
    /// The append never reaches the store.
    Request,
    /// The append reaches the store after it was looked up.
    Late,
    /// Neither the append nor any later one reaches the store until [`Flaky::repair`].
    Writes,
    /// The store refuses the append as too large.
    Large,
}

/// Makes the `at`-th append fail in one way.
pub(super) struct Flaky {
    loss: Loss,
    at: usize,
    appends: AtomicUsize,
    late: Mutex<Option<Sent>>,
    is_repaired: AtomicBool,
}

impl Sandbox {
    /// Starts with a thread store that makes the `at`-th append fail.
    pub(super) async fn start_flaky(options: Options, loss: Loss, at: usize) -> (Self, Arc<Flaky>) {
        let (appends, late, is_repaired) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        let flaky = Arc::new(Flaky { loss, at, appends, late, is_repaired });
        let wrap = |stores: &mut Stores| stores.threads = Layered::over(flaky.clone(), &stores.threads);
        let sandbox = Self::start_as(options, None, Some(Box::new(wrap)), AbandonedCalls::Abort).await;
        (sandbox, flaky)
    }
}

impl Flaky {
    /// Ends [`Loss::Writes`]: later appends reach the store.
    pub(super) fn repair(&self) {
        self.is_repaired.store(true, Ordering::SeqCst);
    }

    pub(super) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    async fn send(&self, below: &dyn ThreadStore, sent: Sent) -> Result<Appended> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let is_lost = self.loss == Loss::Writes && number > self.at && !self.is_repaired.load(Ordering::SeqCst);
        if number != self.at && !is_lost {
            return sent.send_to(below).await;
        }
        match self.loss {
            Loss::Answer => drop(sent.send_to(below).await),
            Loss::Request | Loss::Writes => {}
            Loss::Large => return Err(Error::invalid(Reason::TooLarge, "the append is too large")),
            Loss::Late => *self.late.lock().unwrap() = Some(sent),
        }
        Err(Error::unavailable(Reason::StoreUnavailable, "the answer was lost"))
    }
}

/// An append to an existing thread, or the first append of a new thread.
enum Sent {
    Append(OrgId, ThreadId, Append),
    Begin(Box<NewThread>, Append),
}

impl Sent {
    async fn send_to(self, below: &dyn ThreadStore) -> Result<Appended> {
        match self {
            Self::Append(org, id, append) => below.append(&org, &id, append).await,
            Self::Begin(thread, first) => below.begin(*thread, first).await,
        }
    }
}

#[async_trait]
impl ThreadLayer for Flaky {
    async fn begin(&self, below: &dyn ThreadStore, thread: NewThread, first: Append) -> Result<Appended> {
        self.send(below, Sent::Begin(Box::new(thread), first)).await
    }

    async fn append(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        self.send(below, Sent::Append(org.clone(), id.clone(), append)).await
    }

    async fn has_batch(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
        let is_committed = below.has_batch(org, id, batch).await;
        let late = self.late.lock().unwrap().take();
        if let Some(sent) = late {
            let _ = sent.send_to(below).await;
        }
        is_committed
    }
}

/// Makes the header of one thread unreadable. None: of no thread.
#[derive(Default)]
pub(super) struct Unreadable(pub(super) Mutex<Option<ThreadId>>);

#[async_trait]
impl ThreadLayer for Unreadable {
    async fn header(&self, below: &dyn ThreadStore, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
        if self.0.lock().unwrap().as_ref() == Some(id) {
            return Err(Error::stored_format("the header is malformed"));
        }
        below.header(org, id).await
    }
}

/// Makes the first removal of rows from the open-turn index fail.
pub(super) struct FailingRemoval {
    inner: Arc<dyn OpenTurnStore>,
    has_failed: AtomicBool,
}

impl FailingRemoval {
    pub(super) fn over(inner: &Arc<dyn OpenTurnStore>) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(inner), has_failed: AtomicBool::new(false) })
    }
}

#[async_trait]
impl OpenTurnStore for FailingRemoval {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        if self.has_failed.swap(true, Ordering::SeqCst) {
            return self.inner.remove(rows).await;
        }
        Err(Error::unavailable(Reason::StoreUnavailable, "the removal was not acknowledged"))
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        self.inner.scan(after, limit).await
    }

    async fn compact(&self) -> Result<()> {
        self.inner.compact().await
    }
}
