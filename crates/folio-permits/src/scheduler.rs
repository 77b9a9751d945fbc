//! Selects the waiter that gets the next permit: weighted deficit round robin over the keys. Pure: no clock, no tasks.
//!
//! Keys with waiters form a ring. The key at the front takes as many permits as its weight, one by one as they become
//! free, and then moves to the back. So a waiter waits for the waiters of its own key before it and for at most one
//! round of each other key, however long the other queues are. Rounds do not accumulate: a key without waiters leaves
//! the ring.
//!
//! The number of waiters is bounded. A waiter beyond the bound is refused, unless its key has fewer waiters, relative
//! to its weight, than the key with the most: then the newest waiter of that key is evicted.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Identifies a waiter.
pub(crate) type Ticket = u64;

/// Permits in use with their bytes, or a bound on both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub permits: usize,
    /// Sum of the bytes given to [`Permits::try_acquire`](crate::Permits::try_acquire).
    pub bytes: u64,
}

impl Amount {
    pub const UNBOUNDED: Self = Self { permits: usize::MAX, bytes: u64::MAX };

    /// Returns a bound on permits that does not bound bytes.
    pub const fn permits(permits: usize) -> Self {
        Self { permits, bytes: u64::MAX }
    }

    fn plus(self, bytes: u64) -> Self {
        Self { permits: self.permits.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn minus(self, bytes: u64) -> Self {
        Self { permits: self.permits.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }

    fn is_within(self, bound: Self) -> bool {
        self.permits <= bound.permits && self.bytes <= bound.bytes
    }
}

/// Bounds on the permits in use and on the waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bound on the permits of all keys together.
    pub total: Amount,
    pub per_key: Amount,
    /// Maximum number of waiters, of all keys together.
    pub waiters: usize,
}

/// Reason for which a permit was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    KeyBound,
    TotalBound,
    /// The queue is full, or this waiter was evicted in favor of a key with fewer waiters.
    QueueFull,
    DeadlinePassed,
}

#[derive(Debug)]
pub(crate) struct Scheduler<K, W> {
    bounds: Bounds,
    used: Amount,
    /// One entry for each key that has a permit.
    used_by: HashMap<K, Amount>,
    waiting: usize,
    last_ticket: Ticket,
    queues: HashMap<K, Queue<W>>,
    /// The keys of `queues`; the key at the front is served next.
    ring: VecDeque<K>,
}

#[derive(Debug)]
struct Queue<W> {
    weight: u32,
    /// Permits that the key may still take in this round.
    deficit: u32,
    waiters: VecDeque<(Ticket, W)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome<W> {
    Granted,
    /// The caller waits under this ticket. The second value is the waiter that was evicted for it.
    Queued(Ticket, Option<W>),
    QueueFull,
}

impl<K: Hash + Eq + Clone, W> Scheduler<K, W> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            used: Amount::default(),
            used_by: HashMap::new(),
            waiting: 0,
            last_ticket: 0,
            queues: HashMap::new(),
            ring: VecDeque::new(),
        }
    }

    pub(crate) fn used(&self) -> Amount {
        self.used
    }

    pub(crate) fn used_by(&self, key: &K) -> Amount {
        self.used_by.get(key).copied().unwrap_or_default()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes a permit, or returns the bound that forbids it.
    pub(crate) fn try_acquire(&mut self, key: &K, bytes: u64) -> Result<(), RefusalReason> {
        let (own, all) = (self.used_by(key).plus(bytes), self.used.plus(bytes));
        if !own.is_within(self.bounds.per_key) {
            return Err(RefusalReason::KeyBound);
        }
        if !all.is_within(self.bounds.total) {
            return Err(RefusalReason::TotalBound);
        }
        self.used = all;
        self.used_by.insert(key.clone(), own);
        Ok(())
    }

    /// Takes a permit, or queues the waiter.
    pub(crate) fn request(&mut self, key: &K, weight: u32, waiter: W) -> RequestOutcome<W> {
        // A key has waiters only while it or the total is at its bound, so the caller overtakes no waiter.
        if self.try_acquire(key, 0).is_ok() {
            return RequestOutcome::Granted;
        }
        let weight = weight.max(1);
        let mut evicted = None;
        if self.waiting >= self.bounds.waiters {
            evicted = self.evict_for(key, weight);
            if evicted.is_none() {
                return RequestOutcome::QueueFull;
            }
        }
        self.last_ticket += 1;
        let queue = self.queues.entry(key.clone()).or_insert_with(|| {
            self.ring.push_back(key.clone());
            Queue { weight, deficit: 0, waiters: VecDeque::new() }
        });
        queue.weight = weight;
        queue.waiters.push_back((self.last_ticket, waiter));
        self.waiting += 1;
        RequestOutcome::Queued(self.last_ticket, evicted)
    }

    /// Removes a waiter. Returns false if it was not queued.
    pub(crate) fn cancel(&mut self, key: &K, ticket: Ticket) -> bool {
        let Some(queue) = self.queues.get_mut(key) else { return false };
        let before = queue.waiters.len();
        queue.waiters.retain(|(queued, _)| *queued != ticket);
        if queue.waiters.len() == before {
            return false;
        }
        self.waiting -= 1;
        self.remove_if_empty(key);
        true
    }

    /// Releases a permit. Returns the waiter that receives it, with its key.
    pub(crate) fn release(&mut self, key: &K, bytes: u64) -> Option<(K, W)> {
        self.used = self.used.minus(bytes);
        let left = self.used_by(key).minus(bytes);
        if left.permits == 0 {
            self.used_by.remove(key);
        } else {
            self.used_by.insert(key.clone(), left);
        }
        // A key at its own bound keeps its position and is skipped.
        let position = self.ring.iter().position(|key| self.used_by(key).plus(0).is_within(self.bounds.per_key))?;
        let next = self.ring.get(position)?.clone();
        let queue = self.queues.get_mut(&next)?;
        if queue.deficit == 0 {
            queue.deficit = queue.weight;
        }
        let (_, waiter) = queue.waiters.pop_front()?;
        queue.deficit -= 1;
        if queue.deficit == 0 {
            self.ring.remove(position);
            self.ring.push_back(next.clone());
        }
        self.waiting -= 1;
        self.used = self.used.plus(0);
        self.used_by.insert(next.clone(), self.used_by(&next).plus(0));
        self.remove_if_empty(&next);
        Some((next, waiter))
    }

    fn remove_if_empty(&mut self, key: &K) {
        if self.queues.get(key).is_some_and(|queue| queue.waiters.is_empty()) {
            self.queues.remove(key);
            self.ring.retain(|other| other != key);
        }
    }

    /// Evicts the newest waiter of the key with the most waiters relative to its weight. Returns None if `key`, with
    /// one more waiter, would have as many or more relative to its weight.
    fn evict_for(&mut self, key: &K, weight: u32) -> Option<W> {
        let count = |queue: &Queue<W>| u64::try_from(queue.waiters.len()).unwrap_or(u64::MAX);
        let own = self.queues.get(key).map_or(0, count).saturating_add(1);
        // The order of the ring makes the choice deterministic.
        let candidates = self.ring.iter().filter_map(|other| Some((other, self.queues.get(other)?)));
        let (most, queue) = candidates.max_by(|(_, a), (_, b)| {
            count(a).saturating_mul(b.weight.into()).cmp(&count(b).saturating_mul(a.weight.into()))
        })?;
        let has_more = count(queue).saturating_mul(weight.into()) > own.saturating_mul(queue.weight.into());
        let most = has_more.then(|| most.clone())?;
        let (_, waiter) = self.queues.get_mut(&most)?.waiters.pop_back()?;
        self.waiting -= 1;
        self.remove_if_empty(&most);
        Some(waiter)
    }
}

#[cfg(test)]
#[path = "scheduler/tests.rs"]
mod tests;
