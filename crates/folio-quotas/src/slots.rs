//! What an organization has under way, counted in all processes together and held to its quota.
//!
//! Each process holds its slots in the shared store, under leases that one task renews. An organization without a quota
//! costs nothing there. While the store does not answer, each process counts its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use folio_types::quota::{Quotas, exceeded};
use folio_types::{OrgId, Result};
use futures::StreamExt as _;
use tokio::sync::Notify;

use crate::KnownQuotas;
use folio_storage::{SLOTS_TOLD_MAX, SlotStore};

/// After which time it is worth asking again where something is to end first.
const ENDS_SOON: Duration = Duration::from_secs(1);
/// How often a lease is renewed within its time.
const RENEWALS: u32 = 3;
/// Organizations of which the store is told at once.
const TOLD_AT_ONCE: usize = 16;

/// The slots of one kind. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Slots(Arc<Inner>);

struct Inner {
    kind: &'static str,
    most: fn(&Quotas) -> u32,
    quotas: KnownQuotas,
    store: Arc<dyn SlotStore>,
    here: Mutex<HashMap<OrgId, Here>>,
    changed: Arc<Notify>,
    renews: Arc<Notify>,
}

/// What an organization has in this process. Memory: a name for each.
#[derive(Default)]
struct Here {
    /// By name, with how many hold it.
    held: HashMap<String, usize>,
    /// Held, and the store was not asked for it.
    joined: Vec<String>,
    /// Held no more, which the store does not know yet.
    freed: Vec<String>,
    /// Its leases are renewed: it has a quota, as far as is known.
    limited: bool,
}

/// What the store is told of an organization.
struct News {
    org: OrgId,
    held: Vec<String>,
    freed: Vec<String>,
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slots").field("kind", &self.0.kind).finish_non_exhaustive()
    }
}

impl Slots {
    /// Those of turns that run. Starts a task, so that it must be called on a runtime; the task ends with the last clone.
    pub fn of_turns(quotas: KnownQuotas, store: Arc<dyn SlotStore>) -> Self {
        Self::new("concurrent_turns", |quotas| quotas.concurrent_turns, quotas, store)
    }

    /// Those of model calls under way; else as [`Slots::of_turns`].
    pub fn of_model_calls(quotas: KnownQuotas, store: Arc<dyn SlotStore>) -> Self {
        Self::new("concurrent_model_calls", |quotas| quotas.concurrent_model_calls, quotas, store)
    }

    fn new(kind: &'static str, most: fn(&Quotas) -> u32, quotas: KnownQuotas, store: Arc<dyn SlotStore>) -> Self {
        let [changed, renews] = std::array::from_fn(|_| Arc::new(Notify::new()));
        let (told, renewed) = (Arc::clone(&changed), Arc::clone(&renews));
        let inner = Arc::new(Inner { kind, most, quotas, store, here: Mutex::default(), changed, renews });
        // Both are owned by the slots: they end with their last clone.
        tokio::spawn(tell(Arc::downgrade(&inner), told));
        tokio::spawn(renew(Arc::downgrade(&inner), renewed)); // See above.
        Self(inner)
    }

    /// One more of an organization, where its quota allows it. The name is one of its kind: what goes on elsewhere under the
    /// same name is one and not two.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`; `STORE_UNAVAILABLE` where the quota cannot be read.
    pub async fn take(&self, org: &OrgId, name: &str) -> Result<Slot> {
        let most = self.0.most(org).await?;
        let over = || exceeded(self.0.kind, most.into(), ENDS_SOON);
        if !self.0.hold(org, name, most) {
            return Err(over());
        }
        let mut slot = self.slot(org, name);
        if most == 0 {
            return Ok(slot);
        }
        match self.0.take(org, name, most).await {
            Ok(true) => Ok(slot),
            Ok(false) => {
                slot.refused = true;
                Err(over())
            }
            Err(error) => {
                tracing::debug!(%error, kind = self.0.kind, "what an organization has under way is counted here");
                Ok(slot)
            }
        }
    }

    /// One more that was allowed before, and counts.
    pub fn join(&self, org: &OrgId, name: &str) -> Slot {
        self.0.join(org, name);
        self.slot(org, name)
    }

    fn slot(&self, org: &OrgId, name: &str) -> Slot {
        Slot { inner: Arc::clone(&self.0), org: org.clone(), name: name.to_owned(), refused: false }
    }
}

/// One that is under way; ends when dropped.
#[must_use = "it counts for as long as it is held"]
pub struct Slot {
    inner: Arc<Inner>,
    org: OrgId,
    name: String,
    /// It was not there: the store has nothing to free.
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
    async fn most(&self, org: &OrgId) -> Result<u32> {
        Ok((self.most)(&self.quotas.of(org).await?))
    }

    /// Asks the store for a slot. Where none is left it is told first what ended here.
    async fn take(&self, org: &OrgId, name: &str, most: u32) -> Result<bool> {
        if self.store.take(org, self.kind, name, most).await? {
            return Ok(true);
        }
        let freed = self.here().get(org).map(|here| here.freed.clone()).unwrap_or_default();
        if freed.is_empty() {
            return Ok(false);
        }
        for freed in freed.chunks(SLOTS_TOLD_MAX) {
            self.store.tell(org, self.kind, &[], freed).await?;
        }
        self.told(org, &freed);
        self.store.take(org, self.kind, name, most).await
    }

    /// Counts one more here, unless this process alone has as many as may be.
    fn hold(&self, org: &OrgId, name: &str, most: u32) -> bool {
        let mut here = self.here();
        let here = here.entry(org.clone()).or_default();
        if most > 0 && here.held.len() >= most as usize && !here.held.contains_key(name) {
            return false;
        }
        if !std::mem::replace(&mut here.limited, most > 0) && most > 0 {
            self.renews.notify_one();
        }
        here.hold(name);
        true
    }

    fn join(&self, org: &OrgId, name: &str) {
        let mut here = self.here();
        let here = here.entry(org.clone()).or_default();
        here.hold(name);
        here.joined.push(name.to_owned());
        self.changed.notify_one();
    }

    fn release(&self, org: &OrgId, name: String, refused: bool) {
        let mut all = self.here();
        let Some(here) = all.get_mut(org) else { return };
        if let Some(holders) = here.held.get_mut(&name) {
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                here.held.remove(&name);
                here.joined.retain(|joined| *joined != name);
                if here.limited && !refused {
                    here.freed.push(name);
                    self.changed.notify_one();
                }
            }
        }
        if here.is_empty() {
            all.remove(org);
        }
    }

    /// What is new since the last time.
    fn news(&self) -> Vec<News> {
        let mut here = self.here();
        let news = here.iter_mut().map(|(org, here)| News {
            org: org.clone(),
            held: std::mem::take(&mut here.joined),
            freed: here.freed.clone(),
        });
        news.filter(|news| !news.held.is_empty() || !news.freed.is_empty()).collect()
    }

    /// Everything that is held where there is a quota, and what could not be told of others.
    fn leases(&self) -> Vec<News> {
        let mut here = self.here();
        let leases = here.iter_mut().map(|(org, here)| {
            let joined = std::mem::take(&mut here.joined);
            let held = if here.limited { here.held.keys().cloned().collect() } else { joined };
            News { org: org.clone(), held, freed: Vec::new() }
        });
        leases.filter(|news| !news.held.is_empty()).collect()
    }

    /// Tells the store. What was not told to be held is told with the next renewal; what was not told to be free is, when its
    /// lease is over.
    async fn tell(&self, news: News) {
        let News { org, mut held, freed } = news;
        let told = async {
            let limited = self.most(&org).await? > 0;
            if let Some(here) = self.here().get_mut(&org) {
                here.limited = limited;
                held.retain(|name| here.held.contains_key(name));
            }
            if !limited {
                return Ok(());
            }
            for freed in freed.chunks(SLOTS_TOLD_MAX) {
                self.store.tell(&org, self.kind, &[], freed).await?;
            }
            for held in held.chunks(SLOTS_TOLD_MAX) {
                self.store.tell(&org, self.kind, held, &[]).await?;
            }
            Ok::<_, folio_types::Error>(())
        };
        let told = tokio::time::timeout(self.renewal(), told).await;
        self.told(&org, &freed);
        let problem = match told {
            Ok(Ok(())) => return self.renews.notify_one(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it did not answer in time".to_owned(),
        };
        tracing::debug!(problem, kind = self.kind, "other processes count what an organization has here as it was");
        if let Some(here) = self.here().get_mut(&org) {
            let held = held.into_iter().filter(|name| here.held.contains_key(name) && !here.joined.contains(name));
            let held: Vec<_> = held.collect();
            here.joined.extend(held);
        }
        self.renews.notify_one();
    }

    /// The store knows that these are free, or need not know any more.
    fn told(&self, org: &OrgId, freed: &[String]) {
        let mut all = self.here();
        if let Some(here) = all.get_mut(org) {
            here.freed.retain(|name| !freed.contains(name));
            if here.is_empty() {
                all.remove(org);
            }
        }
    }

    fn renewal(&self) -> Duration {
        self.store.lease() / RENEWALS
    }

    fn has_leases(&self) -> bool {
        self.here().values().any(|here| here.limited || !here.joined.is_empty())
    }

    /// The lock is held for a few instructions for each slot, never over an await.
    fn here(&self) -> MutexGuard<'_, HashMap<OrgId, Here>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Here {
    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.freed.is_empty()
    }

    fn hold(&mut self, name: &str) {
        self.freed.retain(|freed| freed != name);
        *self.held.entry(name.to_owned()).or_default() += 1;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
        self.renews.notify_one();
    }
}

/// Tells the store of what joined and what ended, at once.
async fn tell(slots: Weak<Inner>, changed: Arc<Notify>) {
    loop {
        changed.notified().await;
        let Some(slots) = slots.upgrade() else { return };
        futures::stream::iter(slots.news()).for_each_concurrent(TOLD_AT_ONCE, |news| slots.tell(news)).await;
    }
}

/// Tells the store of everything that is held, in time before leases end, for as long as something is.
async fn renew(weak: Weak<Inner>, renews: Arc<Notify>) {
    while weak.strong_count() > 0 {
        renews.notified().await;
        while let Some(slots) = weak.upgrade().filter(|slots| slots.has_leases()) {
            let renewal = slots.renewal();
            drop(slots);
            tokio::time::sleep(renewal).await;
            let Some(slots) = weak.upgrade() else { return };
            futures::stream::iter(slots.leases()).for_each_concurrent(TOLD_AT_ONCE, |news| slots.tell(news)).await;
        }
    }
}

#[cfg(test)]
mod tests;
