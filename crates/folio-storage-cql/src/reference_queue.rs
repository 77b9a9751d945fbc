//! Queues of reference entries that are added and removed, one queue for each referenced resource.
//!
//! Every entry changes the count in the partition of the referenced resource, so concurrent conditional writes refuse
//! each other. The changes of one process therefore share a conditional batch. Changes of other processes are still
//! resolved by the condition.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_types::{OrgId, Result};

use super::shared_batch::{BatchItem, Results, SharedBatch, locked};

/// A change of the entries of a referenced resource. Idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryChange {
    /// Adds an entry with this value.
    Add(Vec<u8>),
    Remove,
}

/// Changes by the key of their entry.
pub(crate) type Changes = BTreeMap<String, EntryChange>;

/// A change with the key of its entry.
pub(crate) type KeyedChange = (String, EntryChange);

impl BatchItem for KeyedChange {
    /// The changes of a batch are smaller than 16 KiB together.
    const BATCH_MAX: usize = 32;
    const INTERVAL: Option<Duration> = None;

    fn key(&self) -> &str {
        &self.0
    }
}

type Key = (OrgId, String);
type Queue = SharedBatch<KeyedChange>;

/// The queues of the resources whose entries are changed now. A queue is in the map while a caller uses it.
#[derive(Debug, Default)]
pub(crate) struct ReferenceQueues {
    queues: Mutex<HashMap<Key, UsedQueue>>,
}

/// A queue with the number of its guards.
#[derive(Debug, Default)]
struct UsedQueue {
    queue: Arc<Queue>,
    guards: usize,
}

/// A queue in use. Dropping the last guard of a queue removes it from the map: the guards are counted under the lock of
/// the map, so that of two guards that are dropped concurrently exactly one is the last.
struct QueueGuard<'a> {
    queues: &'a ReferenceQueues,
    key: Key,
    queue: Arc<Queue>,
}

impl ReferenceQueues {
    /// Executes a change of one entry, together with those of concurrent callers. `execute` changes all entries of a
    /// batch and returns the results by key.
    ///
    /// A cancelled caller may execute the batch of others: these repeat their changes.
    pub(crate) async fn change<F>(
        &self,
        (org, referenced): (&OrgId, &str),
        change: KeyedChange,
        execute: impl Fn(Vec<KeyedChange>) -> F + Send,
    ) -> Result<()>
    where
        F: Future<Output = Results> + Send,
    {
        let guard = self.queue((org.clone(), referenced.to_owned()));
        guard.queue.execute(change, execute).await
    }

    fn queue(&self, key: Key) -> QueueGuard<'_> {
        let mut queues = locked(&self.queues);
        let used = queues.entry(key.clone()).or_default();
        used.guards += 1;
        QueueGuard { queues: self, key, queue: Arc::clone(&used.queue) }
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut queues = locked(&self.queues.queues);
        let Some(used) = queues.get_mut(&self.key) else { return };
        used.guards -= 1;
        if used.guards == 0 {
            queues.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt as _;

    use super::*;

    const CALLERS: usize = 100;
    /// Number of pairs of guards that are dropped at the same time.
    const PAIRS: usize = 2_000;

    fn org() -> OrgId {
        OrgId::derive(&["org"])
    }

    fn remove(key: &str) -> KeyedChange {
        (key.to_owned(), EntryChange::Remove)
    }

    #[tokio::test]
    async fn concurrent_changes_of_a_resource_share_batches_and_the_last_one_removes_the_queue() {
        let (queues, batches) = (ReferenceQueues::default(), AtomicUsize::new(0));
        let org = org();
        let execute = async |changes: Vec<KeyedChange>| {
            assert!(changes.len() <= KeyedChange::BATCH_MAX);
            batches.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            changes.into_iter().map(|(key, _)| (key, Ok(()))).collect()
        };
        let calls = (0..CALLERS).map(|number| queues.change((&org, "tag"), remove(&number.to_string()), &execute));
        futures::future::try_join_all(calls).await.unwrap();
        assert!(batches.load(Ordering::SeqCst) <= CALLERS.div_ceil(KeyedChange::BATCH_MAX) + 1, "{batches:?}");
        assert!(locked(&queues.queues).is_empty());
    }

    #[tokio::test]
    async fn a_cancelled_change_removes_the_queue_unless_another_one_waits() {
        let queues = ReferenceQueues::default();
        let org = org();
        let change = |key| queues.change((&org, "tag"), remove(key), |_| std::future::pending());
        let (mut first, mut second) = (Box::pin(change("first")), Box::pin(change("second")));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(first);
        assert_eq!(locked(&queues.queues).len(), 1);
        drop(second);
        assert!(locked(&queues.queues).is_empty());
    }

    #[test]
    fn two_guards_that_are_dropped_at_the_same_time_remove_the_queue() {
        let (queues, both) = (ReferenceQueues::default(), Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for number in 0..PAIRS {
                        let guard = queues.queue((org(), number.to_string()));
                        // Both threads have a guard of the queue before one of them drops its own.
                        both.wait();
                        drop(guard);
                    }
                });
            }
        });
        assert!(locked(&queues.queues).is_empty(), "{} queues without a guard", locked(&queues.queues).len());
    }

    #[test]
    fn a_queue_that_is_used_again_is_shared_until_its_last_guard_is_dropped() {
        let queues = ReferenceQueues::default();
        let key = || (org(), "tag".to_owned());
        let (first, second) = (queues.queue(key()), queues.queue(key()));
        drop(first);
        let third = queues.queue(key());
        assert!(Arc::ptr_eq(&second.queue, &third.queue));
        drop(second);
        assert_eq!(locked(&queues.queues).len(), 1);
        drop(third);
        assert!(locked(&queues.queues).is_empty());
    }
}
