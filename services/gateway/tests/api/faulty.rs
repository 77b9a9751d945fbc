//! Stores of the access rights and of the audit log that do not answer where a test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_storage::{AccessStore, AuditStore};
use folio_types::audit::{AuditEntry, AuditKind, AuditPosition};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Error, OrgId, Reason, Result, Timestamp, UserId};

fn away() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "the store is away")
}

/// Where tokens can be shown, but neither made nor listed while it is away.
pub(crate) struct FaultyAccess {
    store: Arc<dyn AccessStore>,
    away: AtomicBool,
}

impl FaultyAccess {
    pub(crate) fn new(store: Arc<dyn AccessStore>) -> Arc<Self> {
        Arc::new(Self { store, away: AtomicBool::new(false) })
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn there(&self) -> Result<&dyn AccessStore> {
        if self.away.load(Ordering::SeqCst) { Err(away()) } else { Ok(self.store.as_ref()) }
    }
}

#[async_trait]
impl AccessStore for FaultyAccess {
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>> {
        self.store.member(org, user).await
    }
    async fn members(&self, org: &OrgId) -> Result<Vec<Member>> {
        self.store.members(org).await
    }
    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool> {
        self.store.write_member(org, write).await
    }
    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        self.there()?.create_token(token).await
    }
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        self.store.token(id).await
    }
    async fn tokens(&self, org: &OrgId) -> Result<Vec<ListedToken>> {
        self.there()?.tokens(org).await
    }
    async fn revoke_token(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Option<TokenRecord>> {
        self.there()?.revoke_token(org, id, at).await
    }
    async fn note_use(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<()> {
        self.store.note_use(org, id, at).await
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
