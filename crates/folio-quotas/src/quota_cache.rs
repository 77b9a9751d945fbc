//! What organizations may have, as the store says it, believed for a moment.

use std::time::Duration;

use folio_types::quota::Quotas;
use folio_types::{OrgId, Result};
use moka::future::Cache;

use folio_resources::Organization;
use folio_storage::ResourceStore;

/// Organizations that are kept in mind.
const KEPT: u64 = 10_000;
/// How long what the store says of one is believed.
const BELIEVED: Duration = Duration::from_secs(2);

/// The quotas of organizations. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct KnownQuotas {
    organizations: ResourceStore<Organization>,
    all: Quotas,
    known: Cache<OrgId, Quotas>,
}

impl std::fmt::Debug for KnownQuotas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownQuotas").field("all", &self.all).finish_non_exhaustive()
    }
}

impl KnownQuotas {
    /// Reads the quotas from this store. `all` are the defaults.
    pub fn new(organizations: ResourceStore<Organization>, all: Quotas) -> Self {
        Self { organizations, all, known: Cache::builder().max_capacity(KEPT).time_to_live(BELIEVED).build() }
    }

    /// What counts for an organization.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub async fn of(&self, org: &OrgId) -> Result<Quotas> {
        if let Some(known) = self.known.get(org).await {
            return Ok(known);
        }
        let found = self.organizations.get(&OrgId::platform(), org).await?;
        let own = found.map(|organization| organization.quotas).unwrap_or_default();
        let counts = own.over(self.all);
        self.known.insert(org.clone(), counts).await;
        Ok(counts)
    }
}
