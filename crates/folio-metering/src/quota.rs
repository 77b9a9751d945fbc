//! Model calls of an organization at once, in this process: before each call asks for anything else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_storage::AccessStore;
use folio_types::quota::{InUse, Quotas};
use folio_types::{OrgId, Result};
use moka::future::Cache;

use crate::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// Organizations that are kept in mind.
const KEPT: u64 = 10_000;
/// How long what the store says of one is believed.
const BELIEVED: Duration = Duration::from_secs(2);

/// A meter behind a bound: an organization has no more calls under way than it may.
pub struct QuotaMeter {
    inner: SharedMeter,
    store: Arc<dyn AccessStore>,
    quotas: Quotas,
    /// How many calls an organization may have under way.
    known: Cache<OrgId, u32>,
    in_use: InUse,
}

impl std::fmt::Debug for QuotaMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuotaMeter").field("quotas", &self.quotas).finish_non_exhaustive()
    }
}

impl QuotaMeter {
    /// In front of this meter; `quotas` are those of organizations that have none of their own in the store.
    pub fn new(inner: SharedMeter, store: Arc<dyn AccessStore>, quotas: Quotas) -> Self {
        let known = Cache::builder().max_capacity(KEPT).time_to_live(BELIEVED).build();
        Self { inner, store, quotas, known, in_use: InUse::new("concurrent_model_calls") }
    }

    async fn most(&self, org: &OrgId) -> Result<u32> {
        if let Some(most) = self.known.get(org).await {
            return Ok(most);
        }
        let own = self.store.organization(org).await?.map(|organization| organization.quotas).unwrap_or_default();
        let most = own.over(self.quotas).concurrent_model_calls;
        self.known.insert(org.clone(), most).await;
        Ok(most)
    }
}

#[async_trait]
impl Meter for QuotaMeter {
    async fn permit(&self, call: MeteredCall) -> Result<Permit> {
        let place = self.in_use.take(&call.org, self.most(&call.org).await?)?;
        let mut permit = self.inner.permit(call).await?;
        permit.place = Some(place);
        Ok(permit)
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<()> {
        self.inner.settle(permit, settlement).await
    }

    fn abandoned_calls(&self) -> AbandonedCalls {
        self.inner.abandoned_calls()
    }
}
