//! Permits that are always granted. If a bound is reached, an older permit is evicted.
//!
//! The bounds are a total and a bound per key. A key at its own bound loses its oldest permit. At the total, the key
//! with the most permits loses its oldest one; among equals, the key with the oldest permit. So a flood of requests
//! with one key evicts only the permits of that key, and a flood with many keys evicts permits of these keys before
//! those of a key with few permits.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// A set of permits that evicts the oldest. Clones share the set.
#[derive(Debug)]
pub struct EvictingPermits<K: Hash + Eq + Clone> {
    holders: Arc<Mutex<Holders<K, CancellationToken>>>,
}

impl<K: Hash + Eq + Clone> Clone for EvictingPermits<K> {
    fn clone(&self) -> Self {
        Self { holders: Arc::clone(&self.holders) }
    }
}

impl<K: Hash + Eq + Clone> EvictingPermits<K> {
    /// Creates a set with these bounds; 0 is replaced by 1.
    pub fn new(total: usize, per_key: usize) -> Self {
        Self { holders: Arc::new(Mutex::new(Holders::new(total, per_key))) }
    }

    /// Takes a permit. `has_evicted` of the permit is true if another holder lost its permit.
    pub fn acquire(&self, key: &K) -> EvictablePermit<K> {
        let evicted = CancellationToken::new();
        let (number, oldest) = self.lock().insert(key, evicted.clone());
        if let Some(oldest) = &oldest {
            oldest.cancel();
        }
        let has_evicted = oldest.is_some();
        EvictablePermit { permits: self.clone(), key: key.clone(), number, evicted, has_evicted }
    }

    pub fn load(&self) -> usize {
        self.lock().count
    }

    /// Locks the set for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, Holders<K, CancellationToken>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit that may be evicted. The holder ends its work when [`EvictablePermit::evicted`] is cancelled.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once bounds nothing"]
pub struct EvictablePermit<K: Hash + Eq + Clone> {
    permits: EvictingPermits<K>,
    key: K,
    number: u64,
    evicted: CancellationToken,
    has_evicted: bool,
}

impl<K: Hash + Eq + Clone> EvictablePermit<K> {
    /// Returns a token that is cancelled when the permit is lost.
    pub fn evicted(&self) -> &CancellationToken {
        &self.evicted
    }

    /// Returns true if another holder lost its permit for this one.
    pub fn has_evicted(&self) -> bool {
        self.has_evicted
    }
}

impl<K: Hash + Eq + Clone> Drop for EvictablePermit<K> {
    fn drop(&mut self) {
        self.permits.lock().remove(&self.key, self.number);
    }
}

/// The holders by key and age. Pure: no clock, no tasks.
#[derive(Debug)]
struct Holders<K, H> {
    total: usize,
    per_key: usize,
    count: usize,
    last: u64,
    /// The holders of each key, oldest first. No entry is empty.
    keys: HashMap<K, BTreeMap<u64, H>>,
}

impl<K: Hash + Eq + Clone, H> Holders<K, H> {
    fn new(total: usize, per_key: usize) -> Self {
        Self { total: total.max(1), per_key: per_key.max(1), count: 0, last: 0, keys: HashMap::new() }
    }

    /// Adds a holder. Returns its number, and the holder that was evicted for it.
    fn insert(&mut self, key: &K, holder: H) -> (u64, Option<H>) {
        let own = self.keys.get(key).map_or(0, BTreeMap::len);
        let evicted = if own >= self.per_key {
            self.remove_oldest(&key.clone())
        } else if self.count >= self.total {
            self.largest().and_then(|largest| self.remove_oldest(&largest))
        } else {
            None
        };
        self.last += 1;
        self.keys.entry(key.clone()).or_default().insert(self.last, holder);
        self.count += 1;
        (self.last, evicted)
    }

    /// Removes a holder, unless it was evicted.
    fn remove(&mut self, key: &K, number: u64) -> Option<H> {
        let holders = self.keys.get_mut(key)?;
        let removed = holders.remove(&number)?;
        if holders.is_empty() {
            self.keys.remove(key);
        }
        self.count -= 1;
        Some(removed)
    }

    fn remove_oldest(&mut self, key: &K) -> Option<H> {
        let (number, _) = self.keys.get(key)?.first_key_value()?;
        self.remove(key, *number)
    }

    /// Returns the key with the most holders; among equals, the key with the oldest holder.
    fn largest(&self) -> Option<K> {
        let age = |holders: &BTreeMap<u64, H>| std::cmp::Reverse(holders.keys().next().copied());
        let largest = self.keys.iter().max_by_key(|(_, holders)| (holders.len(), age(holders)));
        largest.map(|(key, _)| key.clone())
    }
}

#[cfg(test)]
#[path = "eviction/tests.rs"]
mod tests;
