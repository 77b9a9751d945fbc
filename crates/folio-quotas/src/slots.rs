//! Bounds an organization's concurrent work by its quota, counted across all processes.
//!
//! Each process registers its slots in the shared store under leases, which one task renews. An organization without a
//! quota causes no calls to the store. While the store is unavailable, each process counts only its own slots.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use folio_resources::Organization;
use folio_resources::quota::{Quotas, exceeded};
use folio_types::{OrgId, Result};
use futures::StreamExt as _;
use tokio::sync::Notify;

use crate::QuotaCache;
use folio_storage::{SLOTS_SYNC_MAX, SlotStore};

/// Retry delay after a refusal: other work has to end first.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Renewals within one lease.
const RENEWALS: u32 = 3;
const CONCURRENT_SYNCS: usize = 16;

/// Slots of one kind of work. Cheap to clone; all clones share the state.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    kind: &'static str,
    limit: fn(&Quotas) -> u32,
    quotas: QuotaCache,
    store: Arc<dyn SlotStore>,
    local: Mutex<HashMap<OrgId, OrgSlots>>,
    changed: Arc<Notify>,
    leases_changed: Arc<Notify>,
}

/// Slots of one organization in this process.
#[derive(Default)]
struct OrgSlots {
    /// Taken slots by name, with the number of [`Slot`]s that share the name.
    taken: HashMap<String, usize>,
    /// Slots taken without asking the store and not yet registered there.
    unregistered: Vec<String>,
    /// Freed slots that are still registered in the store.
    freed: Vec<String>,
    /// If true, the organization has a quota according to the newest read, and leases are renewed.
    limited: bool,
}

/// A pending update of an organization's leases.
struct LeaseUpdate {
    org: OrgId,
    taken: Vec<String>,
    freed: Vec<String>,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("kind", &self.0.kind).finish_non_exhaustive()
    }
}

impl Slots {
    /// Returns the slots of running turns. Must be called on a runtime: it spawns two tasks, which end when the last
    /// clone is dropped.
    pub fn of_turns(quotas: QuotaCache, store: Arc<dyn SlotStore>) -> Self {
        Self::new("concurrent_turns", |quotas| quotas.concurrent_turns, quotas, store)
    }

    /// Returns the slots of in-flight model calls. Spawns tasks like [`Slots::of_turns`].
    pub fn of_model_calls(quotas: QuotaCache, store: Arc<dyn SlotStore>) -> Self {
        Self::new("concurrent_model_calls", |quotas| quotas.concurrent_model_calls, quotas, store)
    }

    /// Returns the quotas of an organization.
    pub async fn quotas_of(&self, org: &OrgId) -> Result<Quotas> {
        self.0.quotas.of(org).await
    }

    /// Caches the quotas of an organization that the caller just read, so that [`Self::take`] need not read them. None: the
    /// organization does not exist.
    pub async fn cache_quotas(&self, org: &OrgId, found: Option<&Organization>) {
        self.0.quotas.insert(org, found).await;
    }

    fn new(kind: &'static str, limit: fn(&Quotas) -> u32, quotas: QuotaCache, store: Arc<dyn SlotStore>) -> Self {
        let [changed, leases_changed]: [Arc<Notify>; 2] = Default::default();
        let notifications = (Arc::clone(&changed), Arc::clone(&leases_changed));
        let inner = Arc::new(Inner { kind, limit, quotas, store, local: Mutex::default(), changed, leases_changed });
        // Both tasks end when the last clone is dropped.
        tokio::spawn(sync_changes(Arc::downgrade(&inner), notifications.0));
        tokio::spawn(renew(Arc::downgrade(&inner), notifications.1)); // See above.
        Self(inner)
    }

    /// Takes a slot if the organization's quota allows it. A name identifies the work: the same name counts once, even
    /// if several processes take it.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`, or `STORE_UNAVAILABLE` if the quota cannot be read. If only the slot store fails, the slot is
    /// taken.
    pub async fn take(&self, org: &OrgId, name: &str) -> Result<Slot> {
        let limit = self.0.limit(org).await?;
        let quota_exceeded = || exceeded(self.0.kind, limit.into(), RETRY_AFTER);
        if !self.0.count_locally(org, name, limit) {
            return Err(quota_exceeded());
        }
        let mut slot = self.slot(org, name);
        if limit == 0 {
            return Ok(slot);
        }
        match self.0.take(org, name, limit).await {
            Ok(true) => Ok(slot),
            Ok(false) => {
                slot.refused = true;
                Err(quota_exceeded())
            }
            Err(error) => {
                tracing::debug!(%error, kind = self.0.kind, "the shared store is unavailable; slots are counted in this process only");
                Ok(slot)
            }
        }
    }

    /// Takes a slot regardless of the quota, for work that was admitted earlier.
    pub fn join(&self, org: &OrgId, name: &str) -> Slot {
        self.0.join(org, name);
        self.slot(org, name)
    }

    fn slot(&self, org: &OrgId, name: &str) -> Slot {
        Slot { inner: Arc::clone(&self.0), org: org.clone(), name: name.to_owned(), refused: false }
    }
}

/// Dropping it frees the slot.
#[must_use = "dropping it frees the slot"]
pub struct Slot {
    inner: Arc<Inner>,
    org: OrgId,
    name: String,
    /// If true, the store refused the slot, so nothing has to be freed there.
    refused: bool,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("kind", &self.inner.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.inner.release(&self.org, std::mem::take(&mut self.name), self.refused);
    }
}

impl Inner {
    async fn limit(&self, org: &OrgId) -> Result<u32> {
        Ok((self.limit)(&self.quotas.of(org).await?))
    }

    /// Takes a slot in the store. If none is free, frees the released slots of this process in the store and retries
    /// once.
    async fn take(&self, org: &OrgId, name: &str, limit: u32) -> Result<bool> {
        if self.store.take(org, self.kind, name, limit).await? {
            return Ok(true);
        }
        let freed = self.local().get(org).map(|local| local.freed.clone()).unwrap_or_default();
        if freed.is_empty() {
            return Ok(false);
        }
        for freed in freed.chunks(SLOTS_SYNC_MAX) {
            self.store.sync(org, self.kind, &[], freed).await?;
        }
        self.remove_freed(org, &freed);
        self.store.take(org, self.kind, name, limit).await
    }

    /// Counts a slot locally. Returns false if this process alone has reached the limit.
    fn count_locally(&self, org: &OrgId, name: &str, limit: u32) -> bool {
        let mut local = self.local();
        let local = local.entry(org.clone()).or_default();
        if limit > 0 && local.taken.len() >= limit as usize && !local.taken.contains_key(name) {
            return false;
        }
        if !std::mem::replace(&mut local.limited, limit > 0) && limit > 0 {
            self.leases_changed.notify_one();
        }
        local.count_locally(name);
        true
    }

    fn join(&self, org: &OrgId, name: &str) {
        let mut local = self.local();
        let local = local.entry(org.clone()).or_default();
        local.count_locally(name);
        local.unregistered.push(name.to_owned());
        self.changed.notify_one();
    }

    fn release(&self, org: &OrgId, name: String, refused: bool) {
        let mut all = self.local();
        let Some(local) = all.get_mut(org) else { return };
        if let Some(users) = local.taken.get_mut(&name) {
            *users = users.saturating_sub(1);
            if *users == 0 {
                local.taken.remove(&name);
                local.unregistered.retain(|unregistered| *unregistered != name);
                if local.limited && !refused {
                    local.freed.push(name);
                    self.changed.notify_one();
                }
            }
        }
        if local.is_empty() {
            all.remove(org);
        }
    }

    /// Returns the changes since the previous sync. If `renews_all`, returns all slots of organizations with a quota
    /// instead, and only the unregistered slots of the others.
    fn updates(&self, renews_all: bool) -> Vec<LeaseUpdate> {
        let mut local = self.local();
        let updates = local.iter_mut().map(|(org, local)| {
            let unregistered = std::mem::take(&mut local.unregistered);
            let renewed = local.taken.keys().cloned();
            let taken = if renews_all && local.limited { renewed.collect() } else { unregistered };
            let freed = if renews_all { Vec::new() } else { local.freed.clone() };
            LeaseUpdate { org: org.clone(), taken, freed }
        });
        updates.filter(|update| !update.taken.is_empty() || !update.freed.is_empty()).collect()
    }

    /// Writes all updates to the store.
    async fn sync_all(&self, renews_all: bool) {
        let updates = futures::stream::iter(self.updates(renews_all));
        updates.for_each_concurrent(CONCURRENT_SYNCS, |update| self.sync(update)).await;
    }

    /// Writes an update to the store. Failed registrations are retried at the next renewal; failed releases expire with
    /// the lease.
    async fn sync(&self, update: LeaseUpdate) {
        let LeaseUpdate { org, mut taken, freed } = update;
        let synced = async {
            let limited = self.limit(&org).await? > 0;
            if let Some(local) = self.local().get_mut(&org) {
                local.limited = limited;
                taken.retain(|name| local.taken.contains_key(name));
            }
            if !limited {
                return Ok(());
            }
            for freed in freed.chunks(SLOTS_SYNC_MAX) {
                self.store.sync(&org, self.kind, &[], freed).await?;
            }
            for taken in taken.chunks(SLOTS_SYNC_MAX) {
                self.store.sync(&org, self.kind, taken, &[]).await?;
            }
            Ok::<_, folio_types::Error>(())
        };
        let synced = tokio::time::timeout(self.renewal(), synced).await;
        self.remove_freed(&org, &freed);
        let problem = match synced {
            Ok(Ok(())) => return self.leases_changed.notify_one(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the store timed out".to_owned(),
        };
        tracing::debug!(problem, kind = self.kind, "cannot sync slot leases; other processes use the previous leases");
        if let Some(local) = self.local().get_mut(&org) {
            taken.retain(|name| local.taken.contains_key(name) && !local.unregistered.contains(name));
            local.unregistered.extend(taken);
        }
        self.leases_changed.notify_one();
    }

    /// Removes slots that the store has freed or whose leases expire there.
    fn remove_freed(&self, org: &OrgId, freed: &[String]) {
        let mut all = self.local();
        if let Some(local) = all.get_mut(org) {
            local.freed.retain(|name| !freed.contains(name));
            if local.is_empty() {
                all.remove(org);
            }
        }
    }

    fn renewal(&self) -> Duration {
        self.store.lease() / RENEWALS
    }

    fn has_leases(&self) -> bool {
        self.local().values().any(|local| local.limited || !local.unregistered.is_empty())
    }

    /// Callers drop the lock before an await.
    fn local(&self) -> MutexGuard<'_, HashMap<OrgId, OrgSlots>> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrgSlots {
    fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.freed.is_empty()
    }

    fn count_locally(&mut self, name: &str) {
        self.freed.retain(|freed| freed != name);
        *self.taken.entry(name.to_owned()).or_default() += 1;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
        self.leases_changed.notify_one();
    }
}

/// Syncs taken and freed slots immediately.
async fn sync_changes(slots: Weak<Inner>, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        let Some(slots) = slots.upgrade() else { return };
        slots.sync_all(false).await;
    }
}

/// Renews all leases three times per lease duration. Sleeps while there are none.
async fn renew(weak: Weak<Inner>, leases_changed: Arc<Notify>) {
    while weak.strong_count() > 0 {
        leases_changed.notified().await;
        while let Some(slots) = weak.upgrade().filter(|slots| slots.has_leases()) {
            let renewal = slots.renewal();
            drop(slots);
            tokio::time::sleep(renewal).await;
            let Some(slots) = weak.upgrade() else { return };
            slots.sync_all(true).await;
        }
    }
}

#[cfg(test)]
mod tests;
