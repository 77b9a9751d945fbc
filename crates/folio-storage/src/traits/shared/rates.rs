//! Rate limits: token buckets.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// The parameters of a token bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The capacity of the bucket.
    pub burst: u32,
    /// The refill rate.
    pub per_second: f64,
}

/// The result of taking tokens from a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    /// The tokens were taken.
    Allowed,
    /// The bucket has too few tokens; nothing was taken.
    Refused {
        /// The time until enough tokens are available, if no other request takes them.
        retry_after: Duration,
    },
}

/// Buckets by organization and name. A lost bucket is full.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Takes `cost` tokens from a bucket if it has as many.
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision>;
}
