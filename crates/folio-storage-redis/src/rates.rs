//! Rate limits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};
use redis::Script;

use super::connection::Connection;
use folio_storage::{Rate, RateDecision, RateStore};

pub(super) struct RedisRates {
    connection: Arc<Connection>,
    take: Script,
}

impl RedisRates {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self { take: Script::new(include_str!("lua/rates_take.lua")), connection }
    }
}

#[async_trait]
impl RateStore for RedisRates {
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision> {
        let mut call = self.take.key(self.connection.key(org.as_str(), &format!("rate:{bucket}")));
        call.arg(rate.burst).arg(rate.per_second).arg(cost);
        let wait: i64 = self.connection.run(&call).await?;
        Ok(match u64::try_from(wait) {
            Ok(wait) => RateDecision::Refused { retry_after: Duration::from_millis(wait) },
            // An allowed request returns -1 minus the number of tokens that are left.
            Err(_) => RateDecision::Allowed { remaining: u32::try_from(-1 - wait).unwrap_or(u32::MAX) },
        })
    }
}
