//! The totals of lists, which the servers count. Large totals are cached for a short time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use folio_types::{OrgId, Result};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use super::READ_CONCURRENCY;
use crate::keyspace::Keyspace;

/// Larger counts are cached.
const CACHED_COUNT_MIN: u64 = 5_000;
/// Time for which a count is cached.
const COUNT_SECONDS: u64 = 10;
const CACHED_COUNTS_MAX: usize = 1_024;

/// The cached counts by list and term.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<String, (u64, Instant)>>);

impl Counts {
    fn get(&self, key: &str) -> Option<u64> {
        let counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (count, at) = counts.get(key)?;
        (at.elapsed() < Duration::from_secs(COUNT_SECONDS)).then_some(*count)
    }

    fn put(&self, key: String, count: u64) {
        let mut counts = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if counts.len() >= CACHED_COUNTS_MAX {
            counts.clear();
        }
        counts.insert(key, (count, Instant::now()));
    }
}

pub(super) async fn count(keyspace: &Keyspace, org: &OrgId, kind: &str, term: &str) -> Result<u64> {
    let key = format!("{org}/{kind}/{term}");
    if let Some(count) = keyspace.counts.get(&key) {
        return Ok(count);
    }
    let (list, catalogue) = ((org, kind), &keyspace.tables.catalogue);
    let buckets = catalogue.buckets(list, term).await?;
    let counts = futures::stream::iter(buckets)
        .map(|bucket| catalogue.count(list, term, bucket))
        .buffer_unordered(READ_CONCURRENCY);
    let count: u64 = counts.try_fold(0, async |sum, count| Ok(sum + count)).await?;
    if count > CACHED_COUNT_MIN {
        keyspace.counts.put(key, count);
    }
    Ok(count)
}
