//! Limits the calls per second of an organization over all gateways, by a token bucket in the shared store. While that
//! store is unavailable, each gateway applies the limit to its own calls.
//!
//! The burst size is the number of calls per second.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::quota::{Quotas, exceeded};
use folio_storage::{Rate, RateDecision, RateStore};
use folio_types::{Error, OrgId, Reason, Result};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

use crate::faces::whole_seconds;

const ENTRIES_MAX: u64 = 100_000;
/// Idle time after which the local limiter of an organization is dropped. The bucket is full after one second, so
/// dropping an idle limiter has no effect.
const IDLE: Duration = Duration::from_secs(60);

/// Name of the bucket in the shared store, and of the limit.
const REQUESTS: &str = "requests_per_second";

/// The state of a limit, in the form of the headers `RateLimit-Policy` and `RateLimit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// Calls per second, and the burst size.
    limit: u32,
    /// Calls that are permitted at once.
    remaining: u32,
    /// Seconds until all calls of the limit are permitted, or until the next one if none is.
    reset: u64,
}

impl RateLimit {
    /// Returns the state that a refusal reports. None: another error.
    pub(crate) fn of_refusal(error: &Error) -> Option<Self> {
        let is_of_requests = error.reason == Reason::QuotaExceeded && error.details.get("quota")? == REQUESTS;
        let limit = error.details.get("limit").filter(|_| is_of_requests)?.parse().ok()?;
        Some(Self { limit, remaining: 0, reset: whole_seconds(error.retry_after.unwrap_or_default()) })
    }

    pub(crate) fn policy(&self) -> String {
        format!("\"{REQUESTS}\";q={};w=1", self.limit)
    }

    pub(crate) fn state(&self) -> String {
        format!("\"{REQUESTS}\";r={};t={}", self.remaining, self.reset)
    }
}

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

    /// Counts a call of an organization. Returns the state of the limit. None: the calls are not limited. Error:
    /// `QUOTA_EXCEEDED`, with the time after which a call is permitted.
    pub(crate) async fn allow(&self, org: &OrgId, quotas: Quotas) -> Result<Option<RateLimit>> {
        let Some(rate_max) = NonZeroU32::new(quotas.requests_per_second) else { return Ok(None) };
        let rate = Rate { burst: rate_max.get(), per_second: rate_max.get().into() };
        let remaining = match self.shared.take(org, REQUESTS, rate, 1).await {
            Ok(RateDecision::Allowed { remaining }) => remaining,
            Ok(RateDecision::Refused { retry_after }) => return Err(quota_exceeded(rate_max, retry_after)),
            Err(error) => {
                tracing::debug!(%error, "the shared rate limit is unavailable; applying the limit locally");
                self.allow_locally(org, rate_max).await?;
                // The local limiter does not report how many calls it permits at once.
                0
            }
        };
        // The bucket is full after one second at most.
        Ok(Some(RateLimit { limit: rate_max.get(), remaining, reset: 1 }))
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
    use folio_storage::SharedOptions;
    use folio_storage_conformance::faults::UnavailableRates;
    use folio_types::System;

    fn quotas(rate_max: u32) -> Quotas {
        Quotas { requests_per_second: rate_max, ..Quotas::default() }
    }

    #[tokio::test]
    async fn gateways_count_together() {
        let shared = folio_storage_memory::shared_stores(Arc::new(System), SharedOptions::default()).rates;
        let gateways = [Rates::new(Arc::clone(&shared)), Rates::new(shared)];
        let [one, other] = ["a", "b"].map(|name| OrgId::derive(&[name]));
        // One call per second, so that the duration of the test does not affect the result.
        let state = gateways[0].allow(&one, quotas(1)).await.unwrap().unwrap();
        let headers = (state.policy(), state.state());
        let expected = ("\"requests_per_second\";q=1;w=1", "\"requests_per_second\";r=0;t=1");
        assert_eq!((headers.0.as_str(), headers.1.as_str()), expected);
        let error = gateways[1].allow(&one, quotas(1)).await.unwrap_err();
        assert_eq!(error.reason, Reason::QuotaExceeded);
        assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
        assert_eq!(RateLimit::of_refusal(&error), Some(state));
        assert_eq!(RateLimit::of_refusal(&exceeded("documents", 1, Duration::ZERO)), None);
        gateways[1].allow(&other, quotas(1)).await.unwrap();
        for _ in 0..1_000 {
            assert_eq!(gateways[0].allow(&one, quotas(0)).await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn without_the_shared_store_the_limit_is_applied_locally_with_a_retry_delay() {
        let rates = Rates::new(Arc::new(UnavailableRates));
        let [one, other] = ["a", "b"].map(|name| OrgId::derive(&[name]));
        rates.allow(&one, quotas(1)).await.unwrap();
        let error = rates.allow(&one, quotas(1)).await.unwrap_err();
        assert_eq!(error.reason, Reason::QuotaExceeded);
        assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
        rates.allow(&other, quotas(1)).await.unwrap();
        rates.allow(&one, quotas(2)).await.unwrap();
    }
}
