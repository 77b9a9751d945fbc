//! A cache of the thread headers that this process wrote last. The next append of this process to a thread need not
//! read the header.
//!
//! Every write of a header has a new fence, so a fence identifies the content of a header. The condition of the append
//! checks that the cached header and its expiry are the stored ones.

use std::sync::Arc;
use std::time::Duration;

use folio_history::thread::{Fence, ThreadHeader};
use folio_types::{OrgId, ThreadId};
use moka::future::Cache;

/// Capacity of the cache, in bytes of stored headers.
const CAPACITY_BYTES: u64 = 16 * 1024 * 1024;
/// Time without an append after which a header is dropped, so that the headers of deleted threads do not fill the cache.
const IDLE: Duration = Duration::from_secs(600);

struct CachedHeader {
    header: ThreadHeader,
    bytes: u32,
}

pub(crate) struct HeaderCache(Cache<(OrgId, ThreadId), Arc<CachedHeader>>);

impl Default for HeaderCache {
    fn default() -> Self {
        let weigher = |_: &(OrgId, ThreadId), cached: &Arc<CachedHeader>| cached.bytes;
        Self(Cache::builder().max_capacity(CAPACITY_BYTES).time_to_idle(IDLE).weigher(weigher).build())
    }
}

impl HeaderCache {
    /// Returns the cached header if it has this fence.
    pub(crate) async fn get(&self, org: &OrgId, id: &ThreadId, fence: Fence) -> Option<ThreadHeader> {
        let cached = self.0.get(&(org.clone(), id.clone())).await?;
        let header = &cached.header;
        (Fence { epoch: header.epoch, version: header.version } == fence).then(|| header.clone())
    }

    /// Caches a committed header. `bytes`: its stored size.
    pub(crate) async fn insert(&self, header: &ThreadHeader, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let cached = Arc::new(CachedHeader { header: header.clone(), bytes });
        self.0.insert((header.org.clone(), header.id.clone()), cached).await;
    }
}
