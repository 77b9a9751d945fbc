//! Layers over the resource store and the audit log, which fail on request of a test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use folio_resources::audit::{AuditEntry, AuditKind};
use folio_resources::{Kind, ListQuery, ResourceWrite, TokenRecord};
use folio_storage::{AuditStore, ResourceExecutor, StoredResource};
use folio_storage_conformance::layer::{AuditLayer, ResourceLayer};
use folio_types::op::WriteOutcome;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Reason, Result};
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
