//! A layer over a store of threads that loses answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_history::thread::{Append, Appended, NewThread};
use folio_metering::AbandonedCalls;
use folio_storage_conformance::layer::ThreadLayer;

use super::*;

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

/// Loses the `at`-th append in one way.
pub(super) struct Flaky {
    lose: Lose,
    at: usize,
    appends: AtomicUsize,
    late: Mutex<Option<Sent>>,
    mended: AtomicBool,
}

impl Sandbox {
    /// Starts with a store of threads that loses the `at`-th append.
    pub(super) async fn start_flaky(options: Options, lose: Lose, at: usize) -> (Self, Arc<Flaky>) {
        let (appends, late, mended) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        let flaky = Arc::new(Flaky { lose, at, appends, late, mended });
        let wrap = |inner| Layered::over(flaky.clone(), &inner) as Arc<dyn ThreadStore>;
        let sandbox = Self::start_as(options, None, Some(Box::new(wrap)), AbandonedCalls::Cut).await;
        (sandbox, flaky)
    }
}

impl Flaky {
    /// Writes from now on.
    pub(super) fn repair(&self) {
        self.mended.store(true, Ordering::SeqCst);
    }

    pub(super) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    async fn send(&self, below: &dyn ThreadStore, sent: Sent) -> Result<Appended> {
        let number = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let broken = self.lose == Lose::Writes && number > self.at && !self.mended.load(Ordering::SeqCst);
        if number != self.at && !broken {
            return sent.carry(below).await;
        }
        match self.lose {
            Lose::Answer => drop(sent.carry(below).await),
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

impl Sent {
    async fn carry(self, below: &dyn ThreadStore) -> Result<Appended> {
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
            let _ = sent.carry(below).await;
        }
        is_committed
    }
}
