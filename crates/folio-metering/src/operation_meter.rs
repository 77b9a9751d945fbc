//! One operation in the usage for all calls of a task.

use async_trait::async_trait;
use folio_types::Result;

use crate::{Meter, MeteredCall, Permit, Settlement, SharedMeter};

/// Replaces the operation of each call. The inner meter records it.
pub struct OperationMeter {
    inner: SharedMeter,
    operation: &'static str,
}

impl std::fmt::Debug for OperationMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationMeter").field("operation", &self.operation).finish_non_exhaustive()
    }
}

impl OperationMeter {
    pub fn new(inner: SharedMeter, operation: &'static str) -> Self {
        Self { inner, operation }
    }
}

#[async_trait]
impl Meter for OperationMeter {
    fn max_price(&self, call: &MeteredCall) -> u64 {
        self.inner.max_price(call)
    }

    fn charge(&self, call: &MeteredCall, settlement: &Settlement) -> u64 {
        self.inner.charge(call, settlement)
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        self.inner.request_permit(MeteredCall { operation: self.operation, ..call }).await
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        self.inner.settle(permit, settlement).await
    }
}
