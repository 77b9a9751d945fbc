//! Limits the calls per second of an organization over all gateways, by a token bucket in the shared store. While that
//! store is unavailable, each gateway applies the limit to its own calls.
//!
//! The burst size is the number of calls per second.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::quota::{Quotas, exceeded};
use folio_storage::{Rate, RateDecision, RateStore};
use folio_types::{Error, OrgId, Result};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

const ENTRIES_MAX: u64 = 100_000;
/// Idle time after which the local limiter of an organization is dropped. The bucket is full after one second, so
/// dropping an idle limiter has no effect.
const IDLE: Duration = Duration::from_secs(60);

/// Name of the bucket in the shared store, and of the limit.
const REQUESTS: &str = "requests_per_second";

/// Clones share the limiters.
#[derive(Clone)]
pub(crate) struct Rates {
    shared: Arc<dyn RateStore>,
    /// Used while the shared store is unavailable.
    local: Cache<OrgId, Arc<LocalLimit>>,
}

struct LocalLimit {
    rate_max: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
}

impl Rates {
    pub(crate) fn new(shared: Arc<dyn RateStore>) -> Self {
        Self { shared, local: Cache::builder().max_capacity(ENTRIES_MAX).time_to_idle(IDLE).build() }
    }

    /// Counts a call of an organization. Error: `QUOTA_EXCEEDED`, with the time after which a call is permitted.
    pub(crate) async fn allow(&self, org: &OrgId, quotas: Quotas) -> Result<()> {
        let Some(rate_max) = NonZeroU32::new(quotas.requests_per_second) else { return Ok(()) };
        let rate = Rate { burst: rate_max.get(), per_second: rate_max.get().into() };
        match self.shared.take(org, REQUESTS, rate, 1).await {
            Ok(RateDecision::Allowed) => Ok(()),
            Ok(RateDecision::Refused { retry_after }) => Err(quota_exceeded(rate_max, retry_after)),
            Err(error) => {
                tracing::debug!(%error, "the shared rate limit is unavailable; applying the limit locally");
                self.allow_locally(org, rate_max).await
            }
        }
    }

    async fn allow_locally(&self, org: &OrgId, rate_max: NonZeroU32) -> Result<()> {
        let limit = match self.local.get(org).await {
            Some(limit) if limit.rate_max == rate_max => limit,
            // The limiter is missing, or the quota has changed.
            _ => {
                let limit =
                    Arc::new(LocalLimit { rate_max, limiter: RateLimiter::direct(Quota::per_second(rate_max)) });
                self.local.insert(org.clone(), Arc::clone(&limit)).await;
                limit
            }
        };
        let checked = limit.limiter.check();
        checked.map_err(|until| quota_exceeded(rate_max, until.wait_time_from(DefaultClock::default().now())))
    }
}

fn quota_exceeded(rate_max: NonZeroU32, wait: Duration) -> Error {
    exceeded(REQUESTS, rate_max.get().into(), wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use folio_storage::SharedOptions;
    use folio_types::{Reason, System};

    struct UnavailableStore;

    #[async_trait]
    impl RateStore for UnavailableStore {
        async fn take(&self, _: &OrgId, _: &str, _: Rate, _: u32) -> Result<RateDecision> {
            Err(Error::unavailable(Reason::StoreUnavailable, "unavailable"))
        }
    }

    fn quotas(rate_max: u32) -> Quotas {
        Quotas { requests_per_second: rate_max, ..Quotas::default() }
    }

    #[tokio::test]
    async fn gateways_count_together() {
        let shared = folio_storage_memory::shared_stores(Arc::new(System), SharedOptions::default()).rates;
        let gateways = [Rates::new(Arc::clone(&shared)), Rates::new(shared)];
        let [one, other] = ["a", "b"].map(|name| OrgId::derive(&[name]));
        // One call per second, so that the duration of the test does not affect the result.
        gateways[0].allow(&one, quotas(1)).await.unwrap();
        let error = gateways[1].allow(&one, quotas(1)).await.unwrap_err();
        assert_eq!(error.reason, Reason::QuotaExceeded);
        assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
        gateways[1].allow(&other, quotas(1)).await.unwrap();
        for _ in 0..1_000 {
            gateways[0].allow(&one, quotas(0)).await.unwrap();
        }
    }

    #[tokio::test]
    async fn without_the_shared_store_the_limit_is_applied_locally_with_a_retry_delay() {
        let rates = Rates::new(Arc::new(UnavailableStore));
        let [one, other] = ["a", "b"].map(|name| OrgId::derive(&[name]));
        rates.allow(&one, quotas(1)).await.unwrap();
        let error = rates.allow(&one, quotas(1)).await.unwrap_err();
        assert_eq!(error.reason, Reason::QuotaExceeded);
        assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
        rates.allow(&other, quotas(1)).await.unwrap();
        rates.allow(&one, quotas(2)).await.unwrap();
    }
}
