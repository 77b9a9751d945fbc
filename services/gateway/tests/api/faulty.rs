//! Layers over stores, which fail or block on request of a test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_resources::audit::{AuditEntry, AuditKind};
use folio_resources::{Kind, ListQuery, ResourceWrite, TokenRecord};
use folio_storage::{AuditStore, ResourceExecutor, StoredResource, ThreadStore};
use folio_storage_conformance::layer::{AuditLayer, ResourceLayer, ThreadLayer};
use folio_types::op::WriteOutcome;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Reason, Result, ThreadId};
use tokio::sync::Semaphore;

fn unavailable() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is unavailable")
}

/// A resource store that refuses to change and list tokens while it is away. Other calls succeed.
#[derive(Default)]
pub(crate) struct FaultyTokens(AtomicBool);

impl FaultyTokens {
    pub(crate) fn set_away(&self, is_away: bool) {
        self.0.store(is_away, Ordering::SeqCst);
    }

    fn check(&self, kind: &'static Kind) -> Result<()> {
        let is_away = self.0.load(Ordering::SeqCst) && kind == Kind::get::<TokenRecord>();
        if is_away { Err(unavailable()) } else { Ok(()) }
    }
}

#[async_trait]
impl ResourceLayer for FaultyTokens {
    async fn decide(&self, below: &dyn ResourceExecutor, write: ResourceWrite) -> Result<WriteOutcome> {
        self.check(write.kind)?;
        below.decide(write).await
    }

    async fn list(
        &self,
        below: &dyn ResourceExecutor,
        org: &OrgId,
        query: ListQuery,
        page: &PageRequest,
    ) -> Result<Page<StoredResource>> {
        self.check(query.kind)?;
        below.list(org, query, page).await
    }
}

/// An audit log that refuses entries of some kinds of one organization, or blocks every append until it is unblocked.
pub(crate) struct FaultyLog {
    is_open: Semaphore,
    refused: Mutex<Option<(OrgId, &'static [AuditKind])>>,
}

impl FaultyLog {
    /// Creates a log. `permits` is 1, or 0 if the log blocks every append until [`Self::unblock`].
    pub(crate) fn new(permits: usize) -> Self {
        Self { is_open: Semaphore::new(permits), refused: Mutex::default() }
    }

    pub(crate) fn unblock(&self) {
        self.is_open.add_permits(1);
    }

    /// Refuses entries of these kinds from now on.
    pub(crate) fn refuse(&self, org: &OrgId, kinds: &'static [AuditKind]) {
        *self.refused.lock().unwrap() = Some((org.clone(), kinds));
    }
}

#[async_trait]
impl AuditLayer for FaultyLog {
    async fn append(&self, below: &dyn AuditStore, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let _permit = self.is_open.acquire().await.unwrap();
        let refuses = |(refused, kinds): &(OrgId, &[AuditKind])| {
            refused == org && entries.iter().any(|entry| kinds.contains(&entry.kind))
        };
        if self.refused.lock().unwrap().as_ref().is_some_and(refuses) {
            return Err(unavailable());
        }
        below.append(org, entries).await
    }
}

/// A store of threads that blocks the reads of one organization's journals until they are released.
pub(crate) struct BlockedJournals {
    is_open: Semaphore,
    blocked: Mutex<Option<OrgId>>,
    waiting: AtomicUsize,
}

impl BlockedJournals {
    pub(crate) fn new() -> Self {
        Self { is_open: Semaphore::new(0), blocked: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    pub(crate) fn block(&self, org: &OrgId) {
        *self.blocked.lock().unwrap() = Some(org.clone());
    }

    pub(crate) fn release(&self) {
        self.is_open.close();
    }

    /// Returns the number of blocked reads.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl ThreadLayer for BlockedJournals {
    async fn entries(
        &self,
        below: &dyn ThreadStore,
        org: &OrgId,
        id: &ThreadId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Entry)>> {
        let is_blocked = self.blocked.lock().unwrap().as_ref() == Some(org);
        if is_blocked {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // The error of a closed semaphore ends the wait.
            let _ = self.is_open.acquire().await;
        }
        below.entries(org, id, from, limit).await
    }
}
