//! A cache of the headers that this process wrote last, so that its next append to a thread need not read them again.
//!
//! Every write of a header has a new fence, so a fence identifies the content of a header. The condition of the append
//! checks whether the cached header, with its expiry, is still the stored one.

use std::sync::Arc;

use folio_history::thread::{Fence, ThreadHeader};
use folio_types::{OrgId, ThreadId};
use moka::future::Cache;

/// Capacity of the cache, in bytes of stored headers.
const CAPACITY_BYTES: u64 = 16 * 1024 * 1024;

struct Written {
    header: ThreadHeader,
    bytes: u32,
}

/// The cached headers.
pub(crate) struct Headers(Cache<(OrgId, ThreadId), Arc<Written>>);

impl Default for Headers {
    fn default() -> Self {
        let weigher = |_: &(OrgId, ThreadId), written: &Arc<Written>| written.bytes;
        Self(Cache::builder().max_capacity(CAPACITY_BYTES).weigher(weigher).build())
    }
}

impl Headers {
    /// Returns the cached header with this fence.
    pub(crate) async fn at(&self, org: &OrgId, id: &ThreadId, fence: Fence) -> Option<ThreadHeader> {
        let written = self.0.get(&(org.clone(), id.clone())).await?;
        let header = &written.header;
        (Fence { epoch: header.epoch, version: header.version } == fence).then(|| header.clone())
    }

    /// Caches a header that was committed, with its stored size in bytes.
    pub(crate) async fn wrote(&self, header: &ThreadHeader, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let written = Arc::new(Written { header: header.clone(), bytes });
        self.0.insert((header.org.clone(), header.id.clone()), written).await;
    }
}
