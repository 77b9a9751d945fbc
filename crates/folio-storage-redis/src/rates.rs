//! Rate limits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};
use redis::Script;

use super::connection::Connection;
use super::milliseconds;
use folio_storage::{Rate, RateDecision, RateStore, WindowLimit};

pub(super) struct RedisRates {
    connection: Arc<Connection>,
    take: Script,
    count: Script,
    uncount: Script,
}

impl RedisRates {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let take = Script::new(include_str!("lua/rates_take.lua"));
        let count = Script::new(include_str!("lua/windows_count.lua"));
        let uncount = Script::new(include_str!("lua/windows_uncount.lua"));
        Self { connection, take, count, uncount }
    }

    fn window(&self, org: &OrgId, name: &str) -> String {
        self.connection.key(org.as_str(), &format!("window:{name}"))
    }
}

/// Reads the answer of a script. Not negative: the call is refused, and may be repeated after this number of
/// milliseconds. Negative: the call is allowed, and the answer is -1 minus the number of remaining calls.
fn decision(wait: i64) -> RateDecision {
    match u64::try_from(wait) {
        Ok(wait) => RateDecision::Refused { retry_after: Duration::from_millis(wait) },
        Err(_) => RateDecision::Allowed { remaining: u32::try_from(-1 - wait).unwrap_or(u32::MAX) },
    }
}

#[async_trait]
impl RateStore for RedisRates {
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision> {
        let mut call = self.take.key(self.connection.key(org.as_str(), &format!("rate:{bucket}")));
        call.arg(rate.burst).arg(rate.per_second).arg(cost);
        self.connection.run(&call).await.map(decision)
    }

    async fn count(&self, org: &OrgId, window: &str, limit: WindowLimit) -> Result<RateDecision> {
        let mut call = self.count.key(self.window(org, window));
        call.arg(limit.events).arg(milliseconds(limit.period));
        self.connection.run(&call).await.map(decision)
    }

    async fn uncount(&self, org: &OrgId, window: &str) -> Result<()> {
        let call = self.uncount.key(self.window(org, window));
        self.connection.run::<i64>(&call).await.map(drop)
    }
}
