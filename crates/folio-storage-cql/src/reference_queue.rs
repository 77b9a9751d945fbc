//! Queues of reference entries that are added and removed, one queue for each referenced resource.
//!
//! Every entry changes the count in the partition of the referenced resource, so concurrent conditional writes refuse
//! each other. The changes of one process therefore share a conditional batch: while a batch is in flight, further
//! changes wait and form the next one. Changes of other processes are still resolved by the condition.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::{OrgId, Result};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

/// Maximum number of changes of one batch, which is smaller than 16 KiB.
const BATCH_MAX: usize = 32;

/// A change of the entries of a referenced resource. Idempotent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryChange {
    /// Adds an entry with this value.
    Add(Vec<u8>),
    Remove,
}

/// Changes by the key of their entry.
pub(crate) type Changes = BTreeMap<String, EntryChange>;

type Key = (OrgId, String);

/// The queues of the resources whose entries are changed now.
#[derive(Debug, Default)]
pub(crate) struct ReferenceQueues {
    queues: Mutex<HashMap<Key, Arc<Queue>>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Vec<Waiting>>,
    /// Locked by the caller that executes a batch.
    batch: AsyncMutex<()>,
}

#[derive(Debug)]
struct Waiting {
    key: String,
    change: EntryChange,
    result: oneshot::Sender<Result<()>>,
}

/// A queue in use. Dropping the last reference removes it.
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
        (key, change): (String, EntryChange),
        execute: impl Fn(Changes) -> F + Send,
    ) -> Result<()>
    where
        F: Future<Output = BTreeMap<String, Result<()>>> + Send,
    {
        let guard = self.queue((org.clone(), referenced.to_owned()));
        let queue = &guard.queue;
        loop {
            let (result, mut receiver) = oneshot::channel();
            locked(&queue.waiting).push(Waiting { key: key.clone(), change: change.clone(), result });
            let _guard = tokio::select! {
                biased;
                result = &mut receiver => match result {
                    Ok(result) => return result,
                    // The caller that executed the batch was cancelled.
                    Err(_) => continue,
                },
                guard = queue.batch.lock() => guard,
            };
            loop {
                match receiver.try_recv() {
                    Ok(result) => return result,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                let batch = queue.take();
                let changes = batch.iter().map(|(key, waiting)| (key.clone(), waiting.change.clone())).collect();
                let mut results = execute(changes).await;
                for (key, waiting) in batch {
                    if let Some(result) = results.remove(&key) {
                        // The caller may have been cancelled.
                        let _ = waiting.result.send(result);
                    }
                }
            }
        }
    }

    fn queue(&self, key: Key) -> QueueGuard<'_> {
        let queue = Arc::clone(locked(&self.queues).entry(key.clone()).or_default());
        QueueGuard { queues: self, key, queue }
    }
}

impl Queue {
    /// Removes the changes of the next batch: the oldest ones, at most one for each entry.
    fn take(&self) -> BTreeMap<String, Waiting> {
        let (mut batch, mut later) = (BTreeMap::new(), Vec::new());
        let mut waiting = locked(&self.waiting);
        for change in waiting.drain(..).filter(|change| !change.result.is_closed()) {
            if batch.len() < BATCH_MAX && !batch.contains_key(&change.key) {
                batch.insert(change.key.clone(), change);
            } else {
                later.push(change);
            }
        }
        *waiting = later;
        batch
    }
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut queues = locked(&self.queues.queues);
        // The map and this guard.
        if Arc::strong_count(&self.queue) == 2 {
            queues.remove(&self.key);
        }
    }
}

/// Locks for a few instructions, never across an await.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use folio_types::{Error, Reason};
    use futures::FutureExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    const CALLERS: usize = 100;

    fn org() -> OrgId {
        OrgId::derive(&["org"])
    }

    #[tokio::test]
    async fn concurrent_changes_share_batches_and_each_gets_its_own_result() {
        let (queues, batches) = (ReferenceQueues::default(), AtomicUsize::new(0));
        let org = org();
        let execute = async |changes: Changes| {
            assert!(changes.len() <= BATCH_MAX);
            batches.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let refused = || Error::unavailable(Reason::StoreUnavailable, "refused");
            changes.into_keys().map(|key| (key.clone(), if key == "7" { Err(refused()) } else { Ok(()) })).collect()
        };
        let calls = (0..CALLERS)
            .map(|number| queues.change((&org, "tag"), (number.to_string(), EntryChange::Remove), &execute));
        let results = futures::future::join_all(calls).await;
        let failed: Vec<usize> = (0..CALLERS).filter(|at| results[*at].is_err()).collect();
        assert_eq!(failed, [7]);
        assert!(batches.load(Ordering::SeqCst) <= CALLERS.div_ceil(BATCH_MAX) + 1, "{batches:?}");
        assert!(locked(&queues.queues).is_empty());
    }

    #[tokio::test]
    async fn changes_of_one_entry_are_not_in_one_batch() {
        let queues = ReferenceQueues::default();
        let org = org();
        let seen = Mutex::new(Vec::new());
        let execute = async |changes: Changes| {
            tokio::task::yield_now().await;
            seen.lock().unwrap().extend(changes.clone());
            changes.into_keys().map(|key| (key, Ok(()))).collect()
        };
        let change = |change| queues.change((&org, "tag"), ("entry".to_owned(), change), &execute);
        let (added, removed) = tokio::join!(change(EntryChange::Add(vec![1])), change(EntryChange::Remove));
        assert!(added.is_ok() && removed.is_ok());
        let changes: Vec<EntryChange> = seen.into_inner().unwrap().into_iter().map(|(_, change)| change).collect();
        assert_eq!(changes, [EntryChange::Add(vec![1]), EntryChange::Remove]);
    }

    #[tokio::test]
    async fn a_batch_whose_caller_is_cancelled_is_repeated_by_the_others() {
        let queues = ReferenceQueues::default();
        let org = org();
        let (open, started) = (Semaphore::new(0), AtomicUsize::new(0));
        let execute = async |changes: Changes| {
            started.fetch_add(1, Ordering::SeqCst);
            let _permit = open.acquire().await.unwrap();
            changes.into_keys().map(|key| (key, Ok(()))).collect()
        };
        let change = |key: &str| queues.change((&org, "tag"), (key.to_owned(), EntryChange::Remove), &execute);
        let mut first = Box::pin(change("first"));
        let mut second = Box::pin(change("second"));
        let mut third = Box::pin(change("third"));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut second).now_or_never().is_none());
        drop(second);
        open.add_permits(1);
        third.await.unwrap();
        assert_eq!(started.load(Ordering::SeqCst), 3);
        assert!(locked(&queues.queues).is_empty());
    }
}
