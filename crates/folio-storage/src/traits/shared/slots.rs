//! Slots: counting semaphores of leases, for what an organization has under way in all processes together.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// Slots by organization and kind. Each has a name, one of its kind, and is held until its lease ends: who has it tells of it
/// again and again. Slots that were lost are free.
#[async_trait]
pub trait SlotStore: Send + Sync {
    /// Takes a slot where fewer than `most` are held, for one lease; says whether it was taken. One that is held already is
    /// taken again. Costs O(log n) in the number that is held.
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, most: u32) -> Result<bool>;

    /// These are held for another lease, whatever the limit is, and those no more. At most [`SLOTS_TOLD_MAX`] in all.
    async fn tell(&self, org: &OrgId, kind: &str, held: &[String], freed: &[String]) -> Result<()>;

    /// How long a slot is held of which nothing is told.
    fn lease(&self) -> Duration;
}

/// Slots of which one call tells.
pub const SLOTS_TOLD_MAX: usize = 1_000;
