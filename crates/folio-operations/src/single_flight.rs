//! Single-flight: requests with paid model calls run one at a time for each resource that they create. A request that
//! is repeated while the first one runs waits, and then finds the stored resource.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// One lock for each key in use.
#[derive(Debug, Clone)]
pub struct SingleFlight<K> {
    locks: Arc<Mutex<HashMap<K, Arc<AsyncMutex<()>>>>>,
}

impl<K> Default for SingleFlight<K> {
    fn default() -> Self {
        Self { locks: Arc::default() }
    }
}

/// The exclusive right to work on one key. Dropping it passes the right to the next waiter.
#[derive(Debug)]
pub struct SingleFlightGuard<K: Eq + Hash> {
    flights: SingleFlight<K>,
    key: K,
    /// None only within `drop`, which counts the other references.
    lock: Option<Arc<AsyncMutex<()>>>,
    /// None while the guard waits for the lock.
    acquired: Option<OwnedMutexGuard<()>>,
}

impl<K: Eq + Hash + Clone> SingleFlight<K> {
    /// Acquires the exclusive right to work on a key, after the tasks that acquired it earlier. A cancelled wait leaves no entry behind.
    pub async fn acquire(&self, key: &K) -> SingleFlightGuard<K> {
        let lock = self.lock().entry(key.clone()).or_default().clone();
        // Created before the wait, so that its drop removes the entry of a cancelled wait.
        let mut guard =
            SingleFlightGuard { flights: self.clone(), key: key.clone(), lock: Some(lock.clone()), acquired: None };
        guard.acquired = Some(lock.lock_owned().await);
        guard
    }
}

impl<K> SingleFlight<K> {
    /// Locks the map for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<AsyncMutex<()>>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for SingleFlightGuard<K> {
    fn drop(&mut self) {
        self.acquired = None;
        self.lock = None;
        let mut locks = self.flights.lock();
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_task_at_a_time_works_on_a_key_and_no_entry_stays() {
        let flights = SingleFlight::default();
        let first = flights.acquire(&1).await;
        let mut second = Box::pin(flights.acquire(&1));
        assert!((&mut second).now_or_never().is_none(), "it waits");
        assert!(flights.acquire(&2).now_or_never().is_some(), "another key is free");
        let mut third = Box::pin(flights.acquire(&1));
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        drop(first);
        drop(second.await);
        assert!(flights.lock().is_empty());
    }
}
