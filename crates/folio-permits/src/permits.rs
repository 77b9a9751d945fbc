//! RAII permits on top of the [`Scheduler`].

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::scheduler::{Amount, Bounds, RefusalReason, RequestOutcome, Scheduler, Ticket};

/// A set of permits. Clones share the set.
#[derive(Debug)]
pub struct Permits<K: Hash + Eq + Clone> {
    scheduler: Arc<Mutex<Scheduler<K, oneshot::Sender<Permit<K>>>>>,
}

impl<K: Hash + Eq + Clone> Clone for Permits<K> {
    fn clone(&self) -> Self {
        Self { scheduler: Arc::clone(&self.scheduler) }
    }
}

impl<K: Hash + Eq + Clone> Permits<K> {
    pub fn new(bounds: Bounds) -> Self {
        Self { scheduler: Arc::new(Mutex::new(Scheduler::new(bounds))) }
    }

    /// Creates a set without a queue, which refuses permits beyond `total`, or beyond `per_key` for one key.
    pub fn without_queue(total: Amount, per_key: Amount) -> Self {
        Self::new(Bounds { total, per_key, waiters: 0 })
    }

    /// Creates a set of `total` permits without a bound per key, for which at most `waiters` callers wait.
    pub fn with_queue(total: usize, waiters: usize) -> Self {
        Self::new(Bounds { total: Amount::permits(total), per_key: Amount::UNBOUNDED, waiters })
    }

    /// Creates a set of `total` permits, for which at most `waiters` callers wait. A key takes all but one of several permits, so that
    /// the long work of one key does not delay every other key.
    pub fn leaving_one(total: usize, waiters: usize) -> Self {
        let per_key = Amount::permits(total.saturating_sub(1).max(1));
        Self::new(Bounds { total: Amount::permits(total), per_key, waiters })
    }

    /// Takes a permit for `bytes` (0 if only the number of permits is bounded), without waiting. The error
    /// is `KeyBound` or `TotalBound`; `KeyBound` if both bounds are reached.
    pub fn try_acquire(&self, key: &K, bytes: u64) -> Result<Permit<K>, RefusalReason> {
        self.lock().try_acquire(key, bytes)?;
        Ok(self.permit(key, bytes))
    }

    /// Takes a permit, or waits for one until `deadline`. Keys with waiters take turns; a key takes `weight` permits in
    /// a round. Cancellation removes the caller from the queue. The error is `QueueFull` or `DeadlinePassed`.
    pub async fn acquire(&self, key: &K, weight: u32, deadline: Instant) -> Result<Permit<K>, RefusalReason> {
        let (sender, receiver) = oneshot::channel();
        let requested = self.lock().request(key, weight, sender);
        let ticket = match requested {
            RequestOutcome::Granted => return Ok(self.permit(key, 0)),
            RequestOutcome::QueueFull => return Err(RefusalReason::QueueFull),
            // The channel of an evicted waiter is closed.
            RequestOutcome::Queued(ticket, _evicted) => ticket,
        };
        let mut waiter = Waiter { permits: self, key, ticket, receiver };
        match timeout_at(deadline, &mut waiter.receiver).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(RefusalReason::QueueFull),
            Err(_) => Err(RefusalReason::DeadlinePassed),
        }
    }

    pub fn load(&self) -> Amount {
        self.lock().used()
    }

    pub fn load_of(&self, key: &K) -> Amount {
        self.lock().used_by(key)
    }

    pub fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    fn permit(&self, key: &K, bytes: u64) -> Permit<K> {
        Permit { permits: self.clone(), key: key.clone(), bytes }
    }

    /// Locks for a few instructions, never over an await.
    fn lock(&self) -> MutexGuard<'_, Scheduler<K, oneshot::Sender<Permit<K>>>> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A permit. Dropping it hands it to the next waiter.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once bounds nothing"]
pub struct Permit<K: Hash + Eq + Clone> {
    permits: Permits<K>,
    key: K,
    bytes: u64,
}

impl<K: Hash + Eq + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let next = self.permits.lock().release(&self.key, self.bytes);
        if let Some((key, waiter)) = next {
            // If the waiter was cancelled, `send` returns the permit in its error. Dropping it serves the next waiter.
            drop(waiter.send(self.permits.permit(&key, 0)));
        }
    }
}

/// A waiting caller. Dropping it removes the caller from the queue.
struct Waiter<'a, K: Hash + Eq + Clone> {
    permits: &'a Permits<K>,
    key: &'a K,
    ticket: Ticket,
    receiver: oneshot::Receiver<Permit<K>>,
}

impl<K: Hash + Eq + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        self.permits.lock().cancel(self.key, self.ticket);
    }
}

#[cfg(test)]
#[path = "permits/tests.rs"]
mod tests;
