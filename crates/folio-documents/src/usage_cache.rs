//! Cache of the stored documents of organizations, for quotas. The bytes include texts and journals.
//!
//! A cached value is used for [`TTL_MIN`] or [`TTL_PER_READ_TIME`] times the duration of reading it, whichever is
//! longer. Uploads of this process are added to the cached value, and active uploads count, so one process never
//! exceeds a quota. Several processes together may exceed it by the uploads of the other processes within the TTL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use folio_permits::Amount;
use folio_resources::Document;
use folio_resources::quota::{Quotas, exceeded};
use folio_storage::{ResourceStore, ResourceUsage};
use folio_types::{Error, OrgId, Result};
use moka::future::Cache;
use tokio::time::Instant;

/// Maximum number of cached organizations. The least recently used organization is evicted first.
const ORGANIZATIONS_MAX: u64 = 10_000;
/// Minimum time for which a value is cached.
const TTL_MIN: Duration = Duration::from_secs(5);
/// Minimum ratio of the time that a value is cached to the time that reading it takes.
const TTL_PER_READ_TIME: u32 = 20;
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);

/// Cached number and bytes of stored documents. Clones share the cache.
#[derive(Clone)]
pub(crate) struct UsageCache {
    store: ResourceStore<Document>,
    organizations: Cache<OrgId, Arc<CachedUsage>>,
}

struct CachedUsage {
    usage: Mutex<ResourceUsage>,
    expires: Instant,
}

impl CachedUsage {
    fn usage(&self) -> ResourceUsage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UsageCache {
    pub(crate) fn new(store: ResourceStore<Document>) -> Self {
        let organizations = Cache::builder().max_capacity(ORGANIZATIONS_MAX).time_to_idle(10 * TTL_MIN).build();
        Self { store, organizations }
    }

    /// Returns the maximum size of an upload of `bytes`. `load`: all active uploads of the organization, including this
    /// one.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`; the retry delay is the time until the cached value expires.
    pub(crate) async fn available(&self, org: &OrgId, quotas: Quotas, load: Amount, bytes: u64) -> Result<u64> {
        if quotas.documents == 0 && quotas.storage_bytes == 0 {
            return Ok(u64::MAX);
        }
        let cached = self.cached(org).await?;
        let retry_after = cached.expires.saturating_duration_since(Instant::now()).max(RETRY_MIN);
        let (usage, uploads) = (cached.usage(), load.permits as u64);
        if quotas.documents > 0 && usage.count.saturating_add(uploads) > quotas.documents.into() {
            return Err(exceeded("documents", quotas.documents.into(), retry_after));
        }
        if quotas.storage_bytes == 0 {
            return Ok(u64::MAX);
        }
        let others = load.bytes.saturating_sub(bytes);
        let available = quotas.storage_bytes.saturating_sub(usage.bytes).saturating_sub(others);
        if available == 0 {
            return Err(storage_exceeded(quotas, retry_after));
        }
        Ok(available)
    }

    /// Adds a document that this process stored.
    pub(crate) async fn add(&self, org: &OrgId, bytes: u64) {
        self.add_usage(org, ResourceUsage { count: 1, bytes }).await;
    }

    /// Adds content that this process stored and that belongs to no document.
    pub(crate) async fn add_content(&self, org: &OrgId, bytes: u64) {
        self.add_usage(org, ResourceUsage { count: 0, bytes }).await;
    }

    async fn add_usage(&self, org: &OrgId, added: ResourceUsage) {
        if let Some(cached) = self.organizations.get(org).await {
            let mut usage = cached.usage.lock().unwrap_or_else(PoisonError::into_inner);
            *usage = *usage + added;
        }
    }

    async fn cached(&self, org: &OrgId) -> Result<Arc<CachedUsage>> {
        if let Some(cached) = self.organizations.get(org).await {
            if Instant::now() < cached.expires {
                return Ok(cached);
            }
            self.organizations.invalidate(org).await;
        }
        let read = async {
            let started = Instant::now();
            let mut usage = self.store.resource_usage(org).await?;
            usage.bytes = usage.bytes.saturating_add(self.store.content_bytes(org).await?);
            let usage = Mutex::new(usage);
            Ok(Arc::new(CachedUsage {
                usage,
                expires: Instant::now() + TTL_MIN.max(started.elapsed() * TTL_PER_READ_TIME),
            }))
        };
        let cached = self.organizations.try_get_with_by_ref(org, read).await;
        cached.map_err(|error: Arc<Error>| (*error).clone())
    }
}

pub(crate) fn storage_exceeded(quotas: Quotas, retry_after: Duration) -> Error {
    exceeded("storage_bytes", quotas.storage_bytes, retry_after)
}
