//! Enforces the quota of concurrent model calls of an organization over all processes before credit is reserved, and applies the
//! organization's setting for abandoned calls.

use async_trait::async_trait;
use folio_quotas::Slots;
use folio_types::Result;

use crate::{Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// A meter that acquires a slot of the quota before it requests a permit from the inner meter.
pub struct QuotaMeter {
    inner: SharedMeter,
    slots: Slots,
}

impl std::fmt::Debug for QuotaMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuotaMeter").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl QuotaMeter {
    pub fn new(inner: SharedMeter, slots: Slots) -> Self {
        Self { inner, slots }
    }
}

#[async_trait]
impl Meter for QuotaMeter {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.inner.max_price(call)
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        self.inner.charge(call, settlement)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        let slot = self.slots.take(&call.org, &call.key).await?;
        let own = self.slots.quotas_of(&call.org).await?.abandoned_calls;
        let mut permit = self.inner.request_permit(call).await?;
        permit.slot = Some(slot);
        permit.abandoned_calls = own.unwrap_or(permit.abandoned_calls);
        Ok(permit)
    }

    async fn settle(&self, mut permit: Permit, settlement: Settlement) -> Result<u64> {
        // Release the slot first: the call has ended, and writing the settlement may take long.
        drop(permit.slot.take());
        self.inner.settle(permit, settlement).await
    }
}
