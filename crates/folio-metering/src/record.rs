//! A meter without credit: permits every call and records its usage.

use std::sync::Arc;

use async_trait::async_trait;
use folio_credit::Basis;
use folio_storage::{Charged, UsageRecord, UsageStore};
use folio_types::{Environment, Result};

use crate::prices::cost;
use crate::{AbandonedCalls, Meter, MeteredCall, Permit, Settlement};

pub struct UsageRecorder {
    store: Arc<dyn UsageStore>,
    environment: Arc<dyn Environment>,
    abandoned_calls: AbandonedCalls,
}

impl UsageRecorder {
    /// Creates a recorder that aborts abandoned calls.
    pub fn new(store: Arc<dyn UsageStore>, environment: Arc<dyn Environment>) -> Self {
        Self { store, environment, abandoned_calls: AbandonedCalls::Abort }
    }

    #[must_use]
    pub fn with_abandoned_calls(self, abandoned_calls: AbandonedCalls) -> Self {
        Self { abandoned_calls, ..self }
    }
}

#[async_trait]
impl Meter for UsageRecorder {
    fn max_price(&self, _: &MeteredCall) -> u64 {
        0
    }

    fn charge(&self, _: &MeteredCall, _: &Settlement) -> u64 {
        0
    }

    async fn request_permit(&self, call: MeteredCall) -> Result<Permit> {
        let abandoned_calls = self.abandoned_calls;
        Ok(Permit { call, abandoned_calls, reservation: None, slot: None, _reserved: None })
    }

    async fn settle(&self, permit: Permit, settlement: Settlement) -> Result<u64> {
        let (usage, completed) = match settlement {
            Settlement::Completed(usage) => (usage, true),
            Settlement::Partial(usage) => (usage, false),
            Settlement::NotSent => return Ok(0),
        };
        let call = permit.call;
        let charged = Charged {
            credits: 0,
            cost_microdollars: cost(&call.prices, &usage),
            basis: Basis::of(&usage),
            written_off: 0,
        };
        let now = self.environment.now();
        let record = UsageRecord {
            org: call.org,
            user: call.user,
            key: call.key,
            operation: call.operation.to_owned(),
            model: call.model,
            usage,
            completed,
            at: now,
            document: call.document,
            charged: Some(charged),
        };
        self.store.record(record, now).await.map(|()| 0)
    }
}
