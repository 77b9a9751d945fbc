//! Rate limits: token buckets.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Capacity in tokens.
    pub burst: u32,
    pub per_second: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    Allowed {
        /// Number of whole tokens that are left in the bucket.
        remaining: u32,
    },
    /// The bucket has too few tokens; none was taken.
    Refused {
        /// The time until enough tokens are available, if no other request takes them.
        retry_after: Duration,
    },
}

/// Token buckets by organization and name. A bucket that the store lost counts as full.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Takes `cost` tokens, or none if the bucket has fewer.
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<RateDecision>;
}
