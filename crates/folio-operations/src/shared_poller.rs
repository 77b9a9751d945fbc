//! Polls a store once for all watchers of the same state.
//!
//! The first watcher of a key, such as an organization, starts the poller of the key, which ends after the last watcher. Each
//! watcher receives the newest poll, so a slow watcher delays neither the other watchers nor the polls.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use folio_types::{Error, Result};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

/// Time without a change after which a stream sends a keep-alive.
// proto: WatchPendingApprovalsResponse.caught_up "after {} s"
// proto: WatchInboxResponse.caught_up "after {} s"
// proto: WatchDocumentResponse.caught_up "after {} s"
const KEEP_ALIVE: Duration = Duration::from_secs(30);

struct Poll<T> {
    started_at: Instant,
    state: Result<Arc<T>>,
}

/// Sends the newest poll. None: there was no poll.
type Sender<T> = watch::Sender<Option<Poll<T>>>;

type Senders<K, T> = Mutex<HashMap<K, Weak<Sender<T>>>>;

/// The pollers of this process, by key. A poller owns its sender.
pub(crate) struct SharedPollers<K, T> {
    senders: Arc<Senders<K, T>>,
}

/// Locks the map for a few instructions, never across an await.
fn lock<K, T>(senders: &Senders<K, T>) -> MutexGuard<'_, HashMap<K, Weak<Sender<T>>>> {
    senders.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the entry of a poller when the poller ends, also by a panic of its `read`.
struct Entry<K: Eq + Hash, T> {
    senders: Arc<Senders<K, T>>,
    key: K,
    sender: Weak<Sender<T>>,
}

impl<K: Eq + Hash, T> Drop for Entry<K, T> {
    fn drop(&mut self) {
        let mut senders = lock(&self.senders);
        // A poller that ended may already have a successor.
        if senders.get(&self.key).is_some_and(|sender| sender.ptr_eq(&self.sender)) {
            senders.remove(&self.key);
        }
    }
}

impl<K, T> Default for SharedPollers<K, T> {
    fn default() -> Self {
        Self { senders: Arc::default() }
    }
}

impl<K, T> Clone for SharedPollers<K, T> {
    fn clone(&self) -> Self {
        Self { senders: Arc::clone(&self.senders) }
    }
}

/// The polls that a watcher receives.
pub(crate) struct Polls<T> {
    receiver: watch::Receiver<Option<Poll<T>>>,
    since: Instant,
}

impl<T> Polls<T> {
    /// Waits for the next poll. A poll that started before the watcher subscribed is skipped.
    ///
    /// # Errors
    /// The error of the poll.
    pub(crate) async fn next(&mut self) -> Result<Arc<T>> {
        loop {
            let stopped = |_| Error::internal("a shared poller stopped");
            self.receiver.changed().await.map_err(stopped)?;
            if let Some(poll) = &*self.receiver.borrow_and_update()
                && poll.started_at >= self.since
            {
                return poll.state.clone();
            }
        }
    }
}

/// The times of the polls of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) interval: Duration,
    /// Determines when a poller polls within each interval after its first poll, so that the pollers of many keys do not
    /// poll at once.
    pub(crate) random: u128,
}

impl Schedule {
    /// Returns the delay of a poller's second poll, above zero and at most the interval.
    fn delay(self) -> Duration {
        let fraction = u32::try_from(self.random % 1_000).unwrap_or_default();
        self.interval * (1_000 - fraction) / 1_000
    }
}

impl<K: Eq + Hash + Clone + Send + 'static, T: Send + Sync + 'static> SharedPollers<K, T> {
    /// Subscribes to the polls of a key. A new poller polls at once. The poller calls `read` with the state of the last
    /// successful poll, None before it. If the key already has a poller, `read` is ignored.
    pub(crate) fn subscribe<F>(
        &self,
        key: &K,
        schedule: Schedule,
        read: impl Fn(Option<Arc<T>>) -> F + Send + Sync + 'static,
    ) -> Polls<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let since = Instant::now();
        let mut senders = lock(&self.senders);
        if let Some(sender) = senders.get(key).and_then(Weak::upgrade) {
            return Polls { receiver: sender.subscribe(), since };
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        senders.insert(key.clone(), Arc::downgrade(&sender));
        drop(senders);
        // The watchers own the task, which ends after the last watcher is dropped.
        tokio::spawn(self.clone().run(key.clone(), sender, schedule, read));
        Polls { receiver, since }
    }

    /// Polls at once and then as scheduled, until no watcher is left.
    async fn run<F>(
        self,
        key: K,
        sender: Arc<Sender<T>>,
        schedule: Schedule,
        read: impl Fn(Option<Arc<T>>) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let senders = Arc::clone(&self.senders);
        let _entry = Entry { senders, key: key.clone(), sender: Arc::downgrade(&sender) };
        let mut ticks = tokio::time::interval(schedule.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut second) = (None, Some(Instant::now() + schedule.delay()));
        loop {
            tokio::select! {
                () = sender.closed() => {
                    if self.remove_unwatched(&key, &sender) {
                        return;
                    }
                }
                _ = ticks.tick() => {
                    let started_at = Instant::now();
                    let state = read(last.clone()).await.map(Arc::new);
                    if let Ok(state) = &state {
                        last = Some(Arc::clone(state));
                    }
                    sender.send_replace(Some(Poll { started_at, state }));
                    if let Some(second) = second.take() {
                        ticks.reset_at(second);
                    }
                }
            }
        }
    }

    /// Removes a poller unless it has watchers. Returns true if it was removed.
    fn remove_unwatched(&self, key: &K, sender: &Sender<T>) -> bool {
        let mut senders = lock(&self.senders);
        let is_unwatched = sender.receiver_count() == 0;
        if is_unwatched {
            senders.remove(key);
        }
        is_unwatched
    }
}

/// Determines when a stream of changes reports that it is complete: after the initial changes, and then as a keep-alive
/// after [`KEEP_ALIVE`] without a message.
#[derive(Debug, Default)]
pub(crate) struct KeepAlive {
    /// None: the initial changes were not complete yet.
    sent_at: Option<Instant>,
}

impl KeepAlive {
    /// Records that the stream sends a change.
    pub(crate) fn on_change(&mut self, now: Instant) {
        self.sent_at = self.sent_at.map(|_| now);
    }

    /// Returns true if the stream must send the report, and records that it does.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.sent_at.is_none_or(|at| now.duration_since(at) >= KEEP_ALIVE);
        if is_due {
            self.sent_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use folio_testkit::{Simulated, wait_for};
    use folio_types::Environment as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn watchers_of_a_key_share_a_poller_which_ends_after_the_last_one_left() {
        let (pollers, reads) = (SharedPollers::<&str, u64>::default(), Arc::new(AtomicU64::new(0)));
        let schedule = Schedule { interval: Duration::from_secs(1), random: 0 };
        let subscribe = |key| {
            let reads = Arc::clone(&reads);
            pollers.subscribe(&key, schedule, move |last: Option<Arc<u64>>| {
                reads.fetch_add(1, Ordering::SeqCst);
                std::future::ready(Ok(last.map_or(0, |last| *last + 1)))
            })
        };
        let (mut slow, mut fast) = (subscribe("one"), subscribe("one"));
        for number in 0..3 {
            let state = tokio::time::timeout(SOON, fast.next()).await.unwrap().unwrap();
            assert_eq!(*state, number, "a watcher that receives nothing delays no other");
        }
        assert_eq!((reads.load(Ordering::SeqCst), lock(&pollers.senders).len()), (3, 1));
        assert_eq!(*slow.next().await.unwrap(), 2, "only the newest poll waits for a slow watcher");
        let mut other = subscribe("other");
        assert_eq!(*tokio::time::timeout(SOON, other.next()).await.unwrap().unwrap(), 0, "a poller of its own");
        drop((slow, fast, other));
        wait_for("the end of the pollers", SOON, || async { lock(&pollers.senders).is_empty().then_some(()) }).await;
        let mut next = subscribe("one");
        assert_eq!(*tokio::time::timeout(SOON, next.next()).await.unwrap().unwrap(), 0, "a new poller");
    }

    #[tokio::test]
    async fn a_failed_poll_fails_its_watchers_and_not_the_poller() {
        let (pollers, reads) = (SharedPollers::<&str, u64>::default(), AtomicU64::new(0));
        let schedule = Schedule { interval: Duration::from_secs(1), random: 0 };
        let mut polls = pollers.subscribe(&"key", schedule, move |last: Option<Arc<u64>>| {
            let number = reads.fetch_add(1, Ordering::SeqCst);
            let state =
                if number == 1 { Err(Error::internal("a failure")) } else { Ok(last.map_or(5, |last| *last + 1)) };
            std::future::ready(state)
        });
        let mut found = Vec::new();
        while found.len() < 3 {
            found.push(tokio::time::timeout(SOON, polls.next()).await.unwrap().map(|state| *state).ok());
        }
        assert_eq!(found, [Some(5), None, Some(6)]);
    }

    #[tokio::test]
    async fn a_panic_of_a_poll_fails_its_watchers_and_leaves_no_entry() {
        fn defect() -> Result<u64> {
            panic!("a defect of a poll")
        }
        let pollers = SharedPollers::<&str, u64>::default();
        let schedule = Schedule { interval: Duration::from_secs(1), random: 0 };
        let mut polls = pollers.subscribe(&"key", schedule, |_: Option<Arc<u64>>| async { defect() });
        let failed = tokio::time::timeout(SOON, polls.next()).await.unwrap();
        assert_eq!(failed.unwrap_err().code, folio_types::Code::Internal);
        wait_for("the removal of the entry", SOON, || async { lock(&pollers.senders).is_empty().then_some(()) }).await;
        let mut next = pollers.subscribe(&"key", schedule, |_: Option<Arc<u64>>| std::future::ready(Ok(7)));
        assert_eq!(*tokio::time::timeout(SOON, next.next()).await.unwrap().unwrap(), 7, "a new poller");
    }

    #[test]
    fn pollers_that_start_at_once_poll_at_different_times() {
        let environment = Simulated::new(1);
        let mut polls = [0_u32; 10];
        for _ in 0..1_000 {
            let schedule = Schedule { interval: Duration::from_secs(1), random: environment.random() };
            polls[usize::try_from((schedule.delay().as_millis() - 1) / 100).unwrap()] += 1;
        }
        assert!(polls.iter().all(|polls| (60..=150).contains(polls)), "{polls:?}");
    }

    #[test]
    fn a_keep_alive_follows_the_last_message_after_its_interval() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut keep_alive = KeepAlive::default();
        keep_alive.on_change(start);
        assert!(keep_alive.is_due(start), "at once after the initial changes");
        assert!(!keep_alive.is_due(start + KEEP_ALIVE - second));
        keep_alive.on_change(start + KEEP_ALIVE - second);
        assert!(!keep_alive.is_due(start + KEEP_ALIVE));
        assert!(keep_alive.is_due(start + KEEP_ALIVE + KEEP_ALIVE - second));
        assert!(!keep_alive.is_due(start + KEEP_ALIVE + KEEP_ALIVE));
    }
}
