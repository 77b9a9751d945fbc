//! Slots: counting semaphores with leases, which limit an organization's concurrent work in all processes together.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// Slots by organization and kind. A slot has a name that is unique in its kind and is taken until its lease ends. The
/// owner of a slot renews the lease periodically. A slot that the store lost is free.
#[async_trait]
pub trait SlotStore: Send + Sync {
    /// Takes a slot for one lease if fewer than `limit` are taken; returns whether it was taken. Taking a slot again
    /// renews its lease. Costs O(log n) in the number of taken slots.
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool>;

    /// Renews the leases of `renewed`, regardless of the limit, and frees `freed`. Together they have at most
    /// [`SLOTS_SYNC_MAX`] names.
    async fn sync(&self, org: &OrgId, kind: &str, renewed: &[String], freed: &[String]) -> Result<()>;

    /// Returns the time after which a slot that is not renewed becomes free.
    fn lease(&self) -> Duration;
}

/// Maximum number of names in one call of [`SlotStore::sync`].
pub const SLOTS_SYNC_MAX: usize = 1_000;
