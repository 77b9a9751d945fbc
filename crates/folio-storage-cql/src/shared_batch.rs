//! Items of concurrent callers that share batches.
//!
//! One caller at a time executes a batch. Meanwhile the items of further callers wait, and form the next batch. Each waiting
//! item has a caller, so that the calls in flight bound the items. This module does not know the meaning of an item.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::Result;
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::time::Instant;

/// An item of a batch. Executing an item twice has the effect of executing it once.
pub(crate) trait BatchItem: Clone + Send {
    /// Maximum number of items of a batch.
    const BATCH_MAX: usize;
    /// Minimum time between the end of a batch and the next one, unless the batch had [`Self::BATCH_MAX`] items. None: a
    /// batch follows at once.
    const INTERVAL: Option<Duration>;

    /// Returns the key of the item. A batch has at most one item of each key.
    fn key(&self) -> &str;
}

/// The results of a batch by the keys of its items.
pub(crate) type Results = BTreeMap<String, Result<()>>;

type Senders = BTreeMap<String, oneshot::Sender<Result<()>>>;

#[derive(Debug)]
pub(crate) struct SharedBatch<T> {
    waiting: Mutex<Vec<Waiting<T>>>,
    /// Locked by the caller that executes a batch. Time from which the next batch is executed. None: at once.
    next_at: AsyncMutex<Option<Instant>>,
}

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    result: oneshot::Sender<Result<()>>,
}

impl<T> Default for SharedBatch<T> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), next_at: AsyncMutex::default() }
    }
}

impl<T: BatchItem> SharedBatch<T> {
    /// Executes an item together with those of concurrent callers, and returns the result of the item. `execute` executes
    /// the items of a batch, oldest first.
    ///
    /// A cancelled caller may have taken the items of others: these are executed again.
    pub(crate) async fn execute<F>(&self, item: T, execute: impl Fn(Vec<T>) -> F + Send) -> Result<()>
    where
        F: Future<Output = Results> + Send,
    {
        loop {
            let (result, mut receiver) = oneshot::channel();
            locked(&self.waiting).push(Waiting { item: item.clone(), result });
            let mut next_at = tokio::select! {
                biased;
                result = &mut receiver => match result {
                    Ok(result) => return result,
                    // The caller that executed the batch was cancelled.
                    Err(_) => continue,
                },
                guard = self.next_at.lock() => guard,
            };
            loop {
                match receiver.try_recv() {
                    Ok(result) => return result,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                if let Some(at) = *next_at {
                    tokio::time::sleep_until(at).await;
                }
                let (items, mut senders) = self.take();
                let is_full = items.len() == T::BATCH_MAX;
                let results = execute(items).await;
                *next_at = T::INTERVAL.filter(|_| !is_full).map(|interval| Instant::now() + interval);
                for (key, result) in results {
                    if let Some(sender) = senders.remove(&key) {
                        // The caller may have been cancelled.
                        let _ = sender.send(result);
                    }
                }
            }
        }
    }

    /// Removes the items of the next batch: the oldest ones, at most one of each key.
    fn take(&self) -> (Vec<T>, Senders) {
        let (mut items, mut senders, mut later) = (Vec::new(), Senders::new(), Vec::new());
        let mut waiting = locked(&self.waiting);
        for next in waiting.drain(..).filter(|next| !next.result.is_closed()) {
            if items.len() < T::BATCH_MAX && !senders.contains_key(next.item.key()) {
                senders.insert(next.item.key().to_owned(), next.result);
                items.push(next.item);
            } else {
                later.push(next);
            }
        }
        *waiting = later;
        (items, senders)
    }
}

/// Locks for a few instructions, never across an await.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use folio_types::{Error, Reason};
    use futures::FutureExt as _;
    use tokio::sync::{Notify, Semaphore};

    use super::*;

    const CALLERS: usize = 100;
    const BATCH_MAX: usize = 8;

    /// A key and a value.
    #[derive(Debug, Clone)]
    struct Item(String, u32);

    impl BatchItem for Item {
        const BATCH_MAX: usize = BATCH_MAX;
        const INTERVAL: Option<Duration> = None;

        fn key(&self) -> &str {
            &self.0
        }
    }

    /// An item of batches with a pause between them.
    #[derive(Debug, Clone)]
    struct DelayedItem(String);

    impl BatchItem for DelayedItem {
        const BATCH_MAX: usize = BATCH_MAX;
        const INTERVAL: Option<Duration> = Some(Duration::from_millis(50));

        fn key(&self) -> &str {
            &self.0
        }
    }

    fn all_done<T: BatchItem>(items: &[T]) -> Results {
        items.iter().map(|item| (item.key().to_owned(), Ok(()))).collect()
    }

    #[tokio::test]
    async fn concurrent_items_share_batches_and_each_gets_its_own_result() {
        let (shared, batches) = (SharedBatch::default(), AtomicUsize::new(0));
        let execute = async |items: Vec<Item>| {
            assert!(items.len() <= BATCH_MAX);
            batches.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let mut results = all_done(&items);
            if let Some(result) = results.get_mut("7") {
                *result = Err(Error::unavailable(Reason::StoreUnavailable, "refused"));
            }
            results
        };
        let calls = (0..CALLERS).map(|number| shared.execute(Item(number.to_string(), 0), &execute));
        let results = futures::future::join_all(calls).await;
        let failed: Vec<usize> = (0..CALLERS).filter(|at| results[*at].is_err()).collect();
        assert_eq!(failed, [7]);
        assert!(batches.load(Ordering::SeqCst) <= CALLERS.div_ceil(BATCH_MAX) + 1, "{batches:?}");
    }

    #[tokio::test]
    async fn items_of_one_key_are_not_in_one_batch() {
        let (shared, batches) = (SharedBatch::default(), Mutex::new(Vec::new()));
        let execute = async |items: Vec<Item>| {
            tokio::task::yield_now().await;
            batches.lock().unwrap().push(items.iter().map(|item| item.1).collect::<Vec<u32>>());
            all_done(&items)
        };
        let put = |value| shared.execute(Item("key".to_owned(), value), &execute);
        let (first, second) = tokio::join!(put(1), put(2));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(*batches.lock().unwrap(), [[1], [2]]);
    }

    #[tokio::test]
    async fn a_batch_whose_caller_is_cancelled_is_repeated_by_the_others() {
        let shared = SharedBatch::default();
        let (open, started) = (Semaphore::new(0), AtomicUsize::new(0));
        let execute = async |items: Vec<Item>| {
            started.fetch_add(1, Ordering::SeqCst);
            let _permit = open.acquire().await.unwrap();
            all_done(&items)
        };
        let put = |key: &str| shared.execute(Item(key.to_owned(), 0), &execute);
        let mut first = Box::pin(put("first"));
        let mut second = Box::pin(put("second"));
        let mut third = Box::pin(put("third"));
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut second).now_or_never().is_none());
        drop(second);
        open.add_permits(1);
        third.await.unwrap();
        assert_eq!(started.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn an_item_that_a_cancelled_caller_took_after_the_interval_is_executed_by_its_own_caller() {
        let (shared, batches, started) = (SharedBatch::default(), Mutex::new(Vec::new()), Notify::new());
        let execute = async |items: Vec<DelayedItem>| {
            batches.lock().unwrap().push(items.iter().map(|item| item.0.clone()).collect::<Vec<String>>());
            all_done(&items)
        };
        shared.execute(DelayedItem("0".to_owned()), &execute).await.unwrap();
        let mut cancelled = Box::pin(shared.execute(DelayedItem("1".to_owned()), |_| {
            started.notify_one();
            std::future::pending()
        }));
        let mut other = Box::pin(shared.execute(DelayedItem("2".to_owned()), &execute));
        // The first caller waits for the end of the interval, the second one for the first.
        assert!(cancelled.as_mut().now_or_never().is_none() && other.as_mut().now_or_never().is_none());
        tokio::select! {
            _ = cancelled.as_mut() => panic!("the batch does not end"),
            () = started.notified() => {}
        }
        drop(cancelled);
        other.await.unwrap();
        assert_eq!(*batches.lock().unwrap(), [["0"], ["2"]]);
    }
}
