//! Headers as this process wrote them last: its next append to the thread need not read them again.
//!
//! Every write of a header makes a version of its own, so a header is known by its fence, and a fence that is known here is
//! of the header that is kept here. Whether it still stands, with the expiry that a header is read with, the append's
//! condition says.

use std::sync::Arc;

use folio_history::thread::{Fence, ThreadHeader};
use folio_types::{OrgId, ThreadId};
use moka::future::Cache;

/// Bytes of the headers that are kept, as they are stored.
const KEPT_BYTES: u64 = 16 * 1024 * 1024;

struct Written {
    header: ThreadHeader,
    bytes: u32,
}

/// The headers.
pub(crate) struct Headers(Cache<(OrgId, ThreadId), Arc<Written>>);

impl Default for Headers {
    fn default() -> Self {
        let weigher = |_: &(OrgId, ThreadId), written: &Arc<Written>| written.bytes;
        Self(Cache::builder().max_capacity(KEPT_BYTES).weigher(weigher).build())
    }
}

impl Headers {
    /// The header with this fence.
    pub(crate) async fn at(&self, org: &OrgId, id: &ThreadId, fence: Fence) -> Option<ThreadHeader> {
        let written = self.0.get(&(org.clone(), id.clone())).await?;
        let header = &written.header;
        (Fence { epoch: header.epoch, version: header.version } == fence).then(|| header.clone())
    }

    /// This header stands, and takes so many bytes in the store.
    pub(crate) async fn wrote(&self, header: &ThreadHeader, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let written = Arc::new(Written { header: header.clone(), bytes });
        self.0.insert((header.org.clone(), header.id.clone()), written).await;
    }
}
