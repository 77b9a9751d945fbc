//! Usage and charge of the model calls of one tool call. Both count towards the turn's usage, whatever the outcome of the
//! call.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use folio_metering::{Meter, MeteredCall, Permit, Settlement, SharedMeter};
use folio_types::Result;
use folio_types::message::Usage;

/// A meter that sums the settled usage and forwards to the node's meter.
pub(crate) struct UsageRecorder {
    meter: SharedMeter,
    usage: Mutex<Usage>,
}

impl UsageRecorder {
    pub(crate) fn new(meter: SharedMeter) -> Arc<Self> {
        Arc::new(Self { meter, usage: Mutex::default() })
    }

    pub(crate) fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Meter for UsageRecorder {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.meter.max_price(call)
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        self.meter.charge(call, settlement)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        self.meter.request_permit(call).await
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        if let Settlement::Completed(usage) | Settlement::Partial(usage) = &settlement {
            let usage = Usage { credits: self.charge(&permit.call, &settlement), ..*usage };
            let mut sum = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            *sum = sum.plus(usage);
        }
        self.meter.settle(permit, settlement).await
    }
}
