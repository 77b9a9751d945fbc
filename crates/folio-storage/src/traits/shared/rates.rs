//! Rates: buckets that fill evenly and that requests take from.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// How fast and how much at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// What the bucket holds at most.
    pub burst: u32,
    /// What flows in.
    pub per_second: f64,
}

/// What taking gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It was there.
    Allowed,
    /// Not enough is there; after so long it will be, unless others take it. Nothing was taken.
    Refused {
        /// How long.
        retry_after: Duration,
    },
}

/// Buckets by organization and name. A bucket that was lost is full.
#[async_trait]
pub trait RateStore: Send + Sync {
    /// Takes `cost` from a bucket, if it is there.
    async fn take(&self, org: &OrgId, bucket: &str, rate: Rate, cost: u32) -> Result<Taken>;
}
