//! Model calls of an organization at once, in all processes together: before each call asks for anything else.

use async_trait::async_trait;
use folio_storage::Slots;
use folio_types::Result;

use crate::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// A meter behind a bound: an organization has no more calls under way than it may.
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
    /// In front of this meter, with the slots of model calls.
    pub fn new(inner: SharedMeter, slots: Slots) -> Self {
        Self { inner, slots }
    }
}

#[async_trait]
impl Meter for QuotaMeter {
    async fn permit(&self, call: MeteredCall) -> Result<Permit> {
        let slot = self.slots.take(&call.org, &call.key).await?;
        let mut permit = self.inner.permit(call).await?;
        permit.slot = Some(slot);
        Ok(permit)
    }

    async fn settle(&self, mut permit: Permit, settlement: Settlement) -> Result<()> {
        // The call is over: what follows it need not wait until that is written.
        drop(permit.slot.take());
        self.inner.settle(permit, settlement).await
    }

    fn abandoned_calls(&self) -> AbandonedCalls {
        self.inner.abandoned_calls()
    }
}
