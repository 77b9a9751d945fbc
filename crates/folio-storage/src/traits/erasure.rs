//! Erasing organizations.

use std::collections::BTreeSet;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

/// Deleting an organization, and removing whatever is kept below it.
///
/// Who works for an organization when it is deleted may still write below it for a while: what was erased is erased again once
/// that is over, and forgotten then.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Deletes an organization, once: from then on it is not found, and no other one gets its id. Its rows are still there.
    /// False: there never was one.
    async fn delete(&self, org: &OrgId, at: Timestamp) -> Result<bool>;

    /// Organizations that were deleted and are not forgotten, with when that was; at most `limit`.
    async fn deleted(&self, limit: usize) -> Result<Vec<(OrgId, Timestamp)>>;

    /// Removes every row of these organizations but their tombstones, also what nothing leads to any more: reads all keys that
    /// there are, of every organization. It may be broken off and done again.
    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()>;

    /// An organization that was erased for good is not listed any more; its tombstone stays.
    async fn forget(&self, org: &OrgId) -> Result<()>;
}
