//! Model calls of an organization at once, in this process: before each call asks for anything else.

use std::sync::Arc;

use async_trait::async_trait;
use folio_storage::{AccessStore, KnownQuotas};
use folio_types::Result;
use folio_types::quota::{InUse, Quotas};

use crate::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// A meter behind a bound: an organization has no more calls under way than it may.
pub struct QuotaMeter {
    inner: SharedMeter,
    quotas: KnownQuotas,
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
        Self { inner, quotas: KnownQuotas::new(store, quotas), in_use: InUse::new("concurrent_model_calls") }
    }
}

#[async_trait]
impl Meter for QuotaMeter {
    async fn permit(&self, call: MeteredCall) -> Result<Permit> {
        let most = self.quotas.of(&call.org).await?.concurrent_model_calls;
        let place = self.in_use.take(&call.org, most)?;
        let mut permit = self.inner.permit(call).await?;
        permit.place = Some(place);
        Ok(permit)
    }

    async fn settle(&self, mut permit: Permit, settlement: Settlement) -> Result<()> {
        // The call is over: what follows it need not wait until that is written.
        drop(permit.place.take());
        self.inner.settle(permit, settlement).await
    }

    fn abandoned_calls(&self) -> AbandonedCalls {
        self.inner.abandoned_calls()
    }
}
