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
use tokio::time::Instant;

use crate::KnownQuotas;
use crate::traits::{SLOTS_TOLD_MAX, SlotStore};

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
        let (changed, renewal) = (Arc::new(Notify::new()), store.lease() / RENEWALS);
        let inner = Inner { kind, most, quotas, store, here: Mutex::default(), changed: Arc::clone(&changed) };
        let inner = Arc::new(inner);
        // Owned by the slots: it ends with their last clone.
        tokio::spawn(keep(Arc::downgrade(&inner), changed, renewal));
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
        let mut slot = self.slot(org, name, most > 0);
        if most == 0 {
            return Ok(slot);
        }
        match self.0.store.take(org, self.0.kind, name, most).await {
            Ok(true) => Ok(slot),
            Ok(false) => {
                slot.known = false;
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
        self.slot(org, name, true)
    }

    fn slot(&self, org: &OrgId, name: &str, known: bool) -> Slot {
        Slot { inner: Arc::clone(&self.0), org: org.clone(), name: name.to_owned(), known }
    }
}

/// One that is under way; ends when dropped.
#[must_use = "it counts for as long as it is held"]
pub struct Slot {
    inner: Arc<Inner>,
    org: OrgId,
    name: String,
    /// The store may know of it.
    known: bool,
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("kind", &self.inner.kind).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.inner.release(&self.org, std::mem::take(&mut self.name), self.known);
    }
}

impl Inner {
    async fn most(&self, org: &OrgId) -> Result<u32> {
        Ok((self.most)(&self.quotas.of(org).await?))
    }

    /// Counts one more here, unless this process alone has as many as may be.
    fn hold(&self, org: &OrgId, name: &str, most: u32) -> bool {
        let mut here = self.here();
        let here = here.entry(org.clone()).or_default();
        if most > 0 && here.held.len() >= most as usize && !here.held.contains_key(name) {
            return false;
        }
        if std::mem::replace(&mut here.limited, most > 0) != here.limited {
            self.changed.notify_one();
        }
        *here.held.entry(name.to_owned()).or_default() += 1;
        true
    }

    fn join(&self, org: &OrgId, name: &str) {
        let mut here = self.here();
        let here = here.entry(org.clone()).or_default();
        *here.held.entry(name.to_owned()).or_default() += 1;
        here.joined.push(name.to_owned());
        self.changed.notify_one();
    }

    fn release(&self, org: &OrgId, name: String, known: bool) {
        let mut all = self.here();
        let Some(here) = all.get_mut(org) else { return };
        if let Some(holders) = here.held.get_mut(&name) {
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                here.held.remove(&name);
                here.joined.retain(|joined| *joined != name);
                if known {
                    here.freed.push(name);
                    self.changed.notify_one();
                }
            }
        }
        if here.held.is_empty() && here.freed.is_empty() {
            all.remove(org);
        }
    }

    /// What is new since the last time, or everything that is held. What nothing is known of any more is forgotten.
    fn news(&self, all: bool) -> Vec<News> {
        let mut news = Vec::new();
        self.here().retain(|org, here| {
            let joined = std::mem::take(&mut here.joined);
            let held = if all && here.limited { here.held.keys().cloned().collect() } else { joined };
            // One that was taken again meanwhile is held.
            let mut freed = std::mem::take(&mut here.freed);
            freed.retain(|name| !here.held.contains_key(name));
            if !held.is_empty() || !freed.is_empty() {
                news.push(News { org: org.clone(), held, freed });
            }
            !here.held.is_empty()
        });
        news
    }

    /// Tells the store. What it was not told is free when its lease is over, or told with the next renewal.
    async fn tell(&self, news: News) {
        let News { org, held, freed } = news;
        let told = async {
            let limited = self.most(&org).await? > 0;
            if let Some(here) = self.here().get_mut(&org) {
                here.limited = limited;
            }
            if !limited {
                return Ok(());
            }
            for held in held.chunks(SLOTS_TOLD_MAX) {
                self.store.tell(&org, self.kind, held, &[]).await?;
            }
            for freed in freed.chunks(SLOTS_TOLD_MAX) {
                self.store.tell(&org, self.kind, &[], freed).await?;
            }
            Ok::<_, folio_types::Error>(())
        };
        if let Err(error) = told.await {
            tracing::debug!(%error, kind = self.kind, "other processes count what an organization has here as it was");
        }
    }

    fn renews(&self) -> bool {
        self.here().values().any(|here| here.limited)
    }

    /// The lock is held for a few instructions for each slot, never over an await.
    fn here(&self) -> MutexGuard<'_, HashMap<OrgId, Here>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Tells the store of what joined and what ended at once, and of everything in time before a lease ends.
async fn keep(slots: Weak<Inner>, changed: Arc<Notify>, renewal: Duration) {
    let mut renews: Option<Instant> = None;
    loop {
        let due = async {
            match renews {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let all = tokio::select! {
            () = due => true,
            () = changed.notified() => false,
        };
        let Some(slots) = slots.upgrade() else { return };
        futures::stream::iter(slots.news(all)).for_each_concurrent(TOLD_AT_ONCE, |news| slots.tell(news)).await;
        renews = match renews {
            _ if !slots.renews() => None,
            Some(at) if !all => Some(at),
            _ => Some(Instant::now() + renewal),
        };
    }
}

#[cfg(test)]
mod tests;
