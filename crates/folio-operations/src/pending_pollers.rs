//! Polls the index of pending turns once for all watchers of an organization.
//!
//! The first watcher of an organization starts its poller, which ends after the last watcher left. A poll reads a window of
//! the index, and the next poll continues behind it. A watcher receives the newest window, so a slow watcher delays no other
//! one and no window waits for it. Windows contain no calls, because watchers read the calls from the threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use folio_storage::{SharedTurn, SharedTurnStore, TurnCursor};
use folio_types::{Error, OrgId, Result};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

/// Number of index entries of one read.
pub(crate) const READ_ENTRIES: usize = 128;
/// Maximum number of index reads of one poll. A window has at most as many entries as these reads return, a few hundred
/// bytes each.
// proto: none "bounds the work of a poll"
const READS_MAX: usize = 8;
/// Interval at which the index of an organization is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A part of the index.
#[derive(Debug)]
pub(crate) struct Window {
    /// Position after which the window starts. None: the beginning of the index.
    pub(crate) from: Option<TurnCursor>,
    /// Last position of the window. None: the window contains the end of the index.
    pub(crate) until: Option<TurnCursor>,
    /// The entries without their calls.
    pub(crate) entries: Vec<SharedTurn>,
    /// Number of earlier passes through the whole index.
    pub(crate) pass: u32,
}

#[derive(Debug)]
struct Poll {
    started_at: Instant,
    window: Result<Arc<Window>>,
}

/// Sends the newest poll. None: there was no poll.
type Sender = watch::Sender<Option<Poll>>;

/// The pollers of this process. A poller owns its sender.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingPollers {
    senders: Arc<Mutex<HashMap<OrgId, Weak<Sender>>>>,
}

/// A watcher of an organization.
#[derive(Debug)]
pub(crate) struct Windows {
    receiver: watch::Receiver<Option<Poll>>,
    since: Instant,
}

impl Windows {
    /// Waits for the next window of the index. The first one was read after the watcher subscribed.
    ///
    /// # Errors
    /// The error of the poll.
    pub(crate) async fn next(&mut self) -> Result<Arc<Window>> {
        loop {
            let stopped = |_| Error::internal("the poller of the pending approvals stopped");
            self.receiver.changed().await.map_err(stopped)?;
            if let Some(poll) = &*self.receiver.borrow_and_update()
                && poll.started_at >= self.since
            {
                return poll.window.clone();
            }
        }
    }
}

impl PendingPollers {
    /// Subscribes to the windows of an organization's index. A new poller polls at once. `random`: determines when it
    /// polls within each following interval, so that the pollers of many organizations do not poll at once.
    pub(crate) fn subscribe(&self, org: &OrgId, index: &Arc<dyn SharedTurnStore>, random: u128) -> Windows {
        let since = Instant::now();
        let mut senders = self.lock();
        if let Some(sender) = senders.get(org).and_then(Weak::upgrade) {
            return Windows { receiver: sender.subscribe(), since };
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        senders.insert(org.clone(), Arc::downgrade(&sender));
        drop(senders);
        // The watchers own the task, which ends after the last one left.
        tokio::spawn(self.clone().run(org.clone(), Arc::clone(index), sender, since + delay(random)));
        Windows { receiver, since }
    }

    /// Polls at once and regularly from `second` on, until no watcher is left.
    async fn run(self, org: OrgId, index: Arc<dyn SharedTurnStore>, sender: Arc<Sender>, second: Instant) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut from, mut pass, mut second) = (None, 0, Some(second));
        loop {
            tokio::select! {
                () = sender.closed() => {
                    if self.remove_unwatched(&org, &sender) {
                        return;
                    }
                }
                _ = ticks.tick() => {
                    let started_at = Instant::now();
                    let window = read(index.as_ref(), &org, from.take(), pass).await;
                    if let Ok(window) = &window {
                        from.clone_from(&window.until);
                        pass = if from.is_none() { pass.wrapping_add(1) } else { pass };
                    }
                    sender.send_replace(Some(Poll { started_at, window: window.map(Arc::new) }));
                    if let Some(second) = second.take() {
                        ticks.reset_at(second);
                    }
                }
            }
        }
    }

    /// Removes a poller unless it has watchers. Returns true if it was removed.
    fn remove_unwatched(&self, org: &OrgId, sender: &Sender) -> bool {
        let mut senders = self.lock();
        let is_unwatched = sender.receiver_count() == 0;
        if is_unwatched {
            senders.remove(org);
        }
        is_unwatched
    }

    /// Locks the map for a few instructions, never across an await.
    fn lock(&self) -> MutexGuard<'_, HashMap<OrgId, Weak<Sender>>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the delay of a poller's second poll, above zero and at most [`POLL_INTERVAL`].
fn delay(random: u128) -> Duration {
    let fraction = u32::try_from(random % 1_000).unwrap_or_default();
    POLL_INTERVAL * (1_000 - fraction) / 1_000
}

async fn read(index: &dyn SharedTurnStore, org: &OrgId, from: Option<TurnCursor>, pass: u32) -> Result<Window> {
    let mut window = Window { until: from.clone(), from, entries: Vec::new(), pass };
    for _ in 0..READS_MAX {
        let read = index.waiting(org, None, window.until.as_ref(), READ_ENTRIES).await?;
        let is_last = read.len() < READ_ENTRIES;
        window.until = read.iter().rev().find_map(SharedTurn::cursor).or(window.until);
        window.entries.extend(read.into_iter().map(|entry| SharedTurn { pending: Vec::new(), ..entry }));
        if is_last {
            window.until = None;
            break;
        }
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use folio_testkit::{Simulated, wait_for};
    use folio_types::{Environment as _, TurnId, UserId};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// An empty index that counts its reads.
    #[derive(Default)]
    struct Counted(AtomicU64);

    #[async_trait]
    impl SharedTurnStore for Counted {
        async fn publish(&self, _: &SharedTurn) -> Result<bool> {
            Ok(false)
        }

        async fn get(&self, _: &OrgId, _: &TurnId) -> Result<Option<SharedTurn>> {
            Ok(None)
        }

        async fn waiting(
            &self,
            _: &OrgId,
            _: Option<&UserId>,
            _: Option<&TurnCursor>,
            _: usize,
        ) -> Result<Vec<SharedTurn>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(Vec::new())
        }

        async fn erase(&self, _: &OrgId) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn watchers_of_an_organization_share_a_poller_which_ends_after_the_last_one_left() {
        let (pollers, counted) = (PendingPollers::default(), Arc::new(Counted::default()));
        let (index, org) = (Arc::clone(&counted) as Arc<dyn SharedTurnStore>, OrgId::derive(&["org"]));
        let mut slow = pollers.subscribe(&org, &index, 0);
        let mut fast = pollers.subscribe(&org, &index, 0);
        for pass in 0..3 {
            let window = tokio::time::timeout(SOON, fast.next()).await.unwrap().unwrap();
            assert_eq!(
                (window.pass, window.entries.len()),
                (pass, 0),
                "a watcher that receives nothing delays no other"
            );
        }
        assert_eq!((counted.0.load(Ordering::SeqCst), pollers.lock().len()), (3, 1));
        assert_eq!(slow.next().await.unwrap().pass, 2, "only the newest window waits for a slow watcher");
        drop((slow, fast));
        wait_for("the end of the poller", SOON, || async { pollers.lock().is_empty().then_some(()) }).await;
        let mut next = pollers.subscribe(&org, &index, 0);
        assert_eq!(tokio::time::timeout(SOON, next.next()).await.unwrap().unwrap().pass, 0, "a new poller");
    }

    #[test]
    fn pollers_that_start_at_once_poll_at_different_times() {
        let environment = Simulated::new(1);
        let mut polls = [0_u32; 10];
        for _ in 0..1_000 {
            polls[usize::try_from((delay(environment.random()).as_millis() - 1) / 100).unwrap()] += 1;
        }
        assert!(polls.iter().all(|polls| (60..=150).contains(polls)), "{polls:?}");
    }
}
