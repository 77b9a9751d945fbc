//! Slots in memory: leases that limit an organization's concurrent work.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp};

use super::{Context, locked};
use folio_storage::SlotStore;

/// The taken slots of one kind by name, each with the end of its lease.
type KindSlots = HashMap<String, Timestamp>;

pub(super) struct MemorySlots {
    context: Context,
    leases: Mutex<HashMap<(OrgId, String), KindSlots>>,
}

impl MemorySlots {
    pub(super) fn new(context: Context) -> Self {
        Self { context, leases: Mutex::default() }
    }
}

#[async_trait]
impl SlotStore for MemorySlots {
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool> {
        let now = self.context.now();
        let mut all = locked(&self.leases);
        let leases = all.entry((org.clone(), kind.to_owned())).or_default();
        leases.retain(|_, ends| *ends > now);
        let taken = leases.contains_key(slot) || leases.len() < limit as usize;
        if taken {
            leases.insert(slot.to_owned(), now + self.lease());
        }
        Ok(taken)
    }

    async fn sync(&self, org: &OrgId, kind: &str, renewed: &[String], freed: &[String]) -> Result<()> {
        let ends = self.context.now() + self.lease();
        let mut all = locked(&self.leases);
        let key = (org.clone(), kind.to_owned());
        let slots = all.entry(key.clone()).or_default();
        slots.extend(renewed.iter().map(|slot| (slot.clone(), ends)));
        for slot in freed {
            slots.remove(slot);
        }
        if slots.is_empty() {
            all.remove(&key);
        }
        Ok(())
    }

    fn lease(&self) -> Duration {
        self.context.options.slot_lease
    }
}
