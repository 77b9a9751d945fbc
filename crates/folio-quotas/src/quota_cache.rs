//! A cache of the quotas of organizations. Changed quotas apply in every process within two seconds.

use std::time::Duration;

use folio_resources::quota::Quotas;
use folio_types::{OrgId, Result};
use moka::future::Cache;

use folio_resources::Organization;
use folio_storage::ResourceStore;

const CACHE_CAPACITY: u64 = 10_000;
const CACHE_TTL: Duration = Duration::from_secs(2);

/// Cheap to clone; all clones share the cache.
#[derive(Clone)]
pub struct QuotaCache {
    organizations: ResourceStore<Organization>,
    defaults: Quotas,
    cache: Cache<OrgId, Quotas>,
}

impl std::fmt::Debug for QuotaCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuotaCache").field("defaults", &self.defaults).finish_non_exhaustive()
    }
}

impl QuotaCache {
    /// `defaults` apply to organizations without quotas of their own.
    pub fn new(organizations: ResourceStore<Organization>, defaults: Quotas) -> Self {
        let cache = Cache::builder().max_capacity(CACHE_CAPACITY).time_to_live(CACHE_TTL).build();
        Self { organizations, defaults, cache }
    }

    pub async fn of(&self, org: &OrgId) -> Result<Quotas> {
        if let Some(cached) = self.cache.get(org).await {
            return Ok(cached);
        }
        let found = self.organizations.get(&OrgId::platform(), org).await?;
        Ok(self.insert(org, found.as_ref()).await)
    }

    /// Caches the quotas of an organization that was just read, and returns them. None: the organization does not exist.
    pub async fn insert(&self, org: &OrgId, found: Option<&Organization>) -> Quotas {
        let own = found.map(|organization| organization.quotas).unwrap_or_default();
        let effective = own.with_defaults(self.defaults);
        self.cache.insert(org.clone(), effective).await;
        effective
    }
}
