//! Rate limits.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

use super::{Context, locked, since};
use folio_storage::{EventWindow, Rate, RateDecision, RateStore, WindowLimit};

/// The longest retry delay, also for requests that can never be allowed.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Number of buckets from which on full buckets are removed, and of windows from which on empty windows are removed.
const BUCKETS_KEPT: usize = 10_000;

pub(super) struct MemoryRates {
    context: Context,
    buckets: Mutex<HashMap<(OrgId, String), Bucket>>,
    windows: Mutex<HashMap<(OrgId, String), Window>>,
}

struct Window {
    events: EventWindow,
    /// The period of the last event.
    period: Duration,
}

struct Bucket {
    level: f64,
    at: Timestamp,
    full_at: Timestamp,
}

impl MemoryRates {
    pub(super) fn new(context: Context) -> Self {
        Self { context, buckets: Mutex::default(), windows: Mutex::default() }
    }
}

#[async_trait]
impl RateStore for MemoryRates {
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision> {
        let now = self.context.now();
        let mut buckets = locked(&self.buckets);
        if buckets.len() >= BUCKETS_KEPT {
            buckets.retain(|_, bucket| bucket.full_at > now);
        }
        let (burst, cost) = (f64::from(rate.burst), f64::from(cost));
        let key = (org.clone(), bucket.to_owned());
        let level = buckets
            .get(&key)
            .map_or(burst, |bucket| (bucket.level + since(bucket.at, now).as_secs_f64() * rate.per_second).min(burst));
        let until = |missing: f64| {
            let seconds = missing / rate.per_second;
            Duration::try_from_secs_f64(seconds).unwrap_or(DAY).min(DAY)
        };
        if level < cost {
            let retry_after = if cost > burst { DAY } else { until(cost - level) };
            return Ok(RateDecision::Refused { retry_after });
        }
        let level = level - cost;
        let full_at = now + until(burst - level);
        buckets.insert(key, Bucket { level, at: now, full_at });
        // The level is from 0 to the capacity, which is a u32.
        Ok(RateDecision::Allowed { remaining: level as u32 })
    }

    async fn count(&self, org: &OrgId, window: &str, limit: WindowLimit) -> Result<RateDecision> {
        let now = self.context.now();
        let mut windows = locked(&self.windows);
        if windows.len() >= BUCKETS_KEPT {
            windows.retain(|_, window| !window.events.is_empty_since(now - window.period));
        }
        let new = || Window { events: EventWindow::default(), period: limit.period };
        let window = windows.entry((org.clone(), window.to_owned())).or_insert_with(new);
        window.period = limit.period;
        Ok(window.events.count(limit, now))
    }

    async fn uncount(&self, org: &OrgId, window: &str) -> Result<()> {
        if let Some(window) = locked(&self.windows).get_mut(&(org.clone(), window.to_owned())) {
            window.events.uncount();
        }
        Ok(())
    }
}
