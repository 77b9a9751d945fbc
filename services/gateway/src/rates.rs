//! Calls of an organization in a second: each gateway counts its own.
//!
//! An organization that rested may make a second's worth at once, and then goes on at its pace (GCRA).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use folio_types::quota::{Quotas, exceeded};
use folio_types::{OrgId, Result};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use moka::future::Cache;

/// Organizations that are kept in mind: those that called last.
const KEPT: u64 = 100_000;
/// How long one that rests is kept: after a second it has all of its quota anyway.
const RESTED: Duration = Duration::from_secs(60);

/// The pace of each organization.
#[derive(Clone)]
pub(crate) struct Rates {
    paces: Cache<OrgId, Arc<Pace>>,
}

struct Pace {
    most: NonZeroU32,
    limiter: DefaultDirectRateLimiter,
}

impl Default for Rates {
    fn default() -> Self {
        Self { paces: Cache::builder().max_capacity(KEPT).time_to_idle(RESTED).build() }
    }
}

impl Rates {
    /// Counts a call of an organization.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`, with the time after which there is room again.
    pub(crate) async fn allow(&self, org: &OrgId, quotas: Quotas) -> Result<()> {
        let Some(most) = NonZeroU32::new(quotas.requests_per_second) else { return Ok(()) };
        let pace = match self.paces.get(org).await {
            // Another quota since: it begins anew.
            Some(pace) if pace.most == most => pace,
            _ => {
                let pace = Arc::new(Pace { most, limiter: RateLimiter::direct(Quota::per_second(most)) });
                self.paces.insert(org.clone(), Arc::clone(&pace)).await;
                pace
            }
        };
        pace.limiter.check().map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            exceeded("requests_per_second", most.get().into(), wait)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::Reason;

    #[tokio::test]
    async fn a_seconds_worth_at_once_then_a_time_to_come_back() {
        let rates = Rates::default();
        let [one, other] = ["a", "b"].map(|name| OrgId::derive(&[name]));
        let quotas = |most| Quotas { requests_per_second: most, ..Quotas::default() };
        // One in a second, so that the time that this takes plays no part.
        rates.allow(&one, quotas(1)).await.unwrap();
        let error = rates.allow(&one, quotas(1)).await.unwrap_err();
        assert_eq!(error.reason, Reason::QuotaExceeded);
        assert!(error.retry_after.unwrap() <= Duration::from_secs(1));
        rates.allow(&other, quotas(1)).await.unwrap();
        for _ in 0..1_000 {
            rates.allow(&one, quotas(0)).await.unwrap();
        }
        rates.allow(&one, quotas(2)).await.unwrap();
    }
}
