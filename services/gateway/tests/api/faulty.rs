//! Stores of tokens and of the audit log that fail while a test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_resources::{Kind, ListQuery, ResourceWrite, TokenRecord};
use folio_storage::{AuditStore, Holdings, ResourceExecutor, StoredResource};
use folio_types::audit::{AuditEntry, AuditKind, AuditPosition};
use folio_types::op::WriteOutcome;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Reason, Result, Timestamp};

fn away() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is away")
}

/// Resources whose tokens can be read, but neither changed nor listed while they are away.
pub(crate) struct FaultyTokens {
    resources: Arc<dyn ResourceExecutor>,
    is_away: AtomicBool,
}

impl FaultyTokens {
    pub(crate) fn new(resources: Arc<dyn ResourceExecutor>) -> Arc<Self> {
        Arc::new(Self { resources, is_away: AtomicBool::new(false) })
    }

    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    fn of(&self, kind: &'static Kind) -> Result<&dyn ResourceExecutor> {
        let is_away = self.is_away.load(Ordering::SeqCst) && kind == Kind::get::<TokenRecord>();
        if is_away { Err(away()) } else { Ok(self.resources.as_ref()) }
    }
}

#[async_trait]
impl ResourceExecutor for FaultyTokens {
    async fn decide(&self, write: ResourceWrite) -> Result<WriteOutcome> {
        self.of(write.kind)?.decide(write).await
    }
    async fn get(&self, org: &OrgId, kind: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        self.resources.get(org, kind, ids).await
    }
    async fn id_by_name(&self, org: &OrgId, kind: &'static Kind, name: &str) -> Result<Option<String>> {
        self.resources.id_by_name(org, kind, name).await
    }
    async fn list(&self, org: &OrgId, query: ListQuery, page: &PageRequest) -> Result<Page<StoredResource>> {
        self.of(query.kind)?.list(org, query, page).await
    }
    async fn revisions(&self, org: &OrgId, id: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        self.resources.revisions(org, id, numbers).await
    }
    async fn holdings(&self, org: &OrgId, kind: &'static Kind) -> Result<Holdings> {
        self.resources.holdings(org, kind).await
    }
    async fn deleted(&self, kind: &'static Kind, limit: usize) -> Result<Vec<(OrgId, String, Timestamp)>> {
        self.resources.deleted(kind, limit).await
    }
    async fn forget_deleted(&self, org: &OrgId, kind: &'static Kind, id: &str) -> Result<()> {
        self.resources.forget_deleted(org, kind, id).await
    }
    async fn scrub_deleted(&self, kind: &'static Kind, before: Timestamp, limit: usize) -> Result<usize> {
        self.resources.scrub_deleted(kind, before, limit).await
    }
}

/// A log that takes no entries of some kinds of one organization.
pub(crate) struct FaultyLog {
    store: Arc<dyn AuditStore>,
    refused: Mutex<Option<(OrgId, &'static [AuditKind])>>,
}

impl FaultyLog {
    pub(crate) fn new(store: Arc<dyn AuditStore>) -> Arc<Self> {
        Arc::new(Self { store, refused: Mutex::default() })
    }

    /// Refuses entries of these kinds from now on.
    pub(crate) fn refuse(&self, org: &OrgId, kinds: &'static [AuditKind]) {
        *self.refused.lock().unwrap() = Some((org.clone(), kinds));
    }
}

#[async_trait]
impl AuditStore for FaultyLog {
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()> {
        let refuses = |(refused, kinds): &(OrgId, &[AuditKind])| {
            refused == org && entries.iter().any(|entry| kinds.contains(&entry.kind))
        };
        if self.refused.lock().unwrap().as_ref().is_some_and(refuses) {
            return Err(away());
        }
        self.store.append(org, entries).await
    }

    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        self.store.list(org, low, high, newest_first, limit).await
    }
}
