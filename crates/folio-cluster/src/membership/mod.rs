//! Membership: heartbeats of this process, and the liveness of the other nodes.
//!
//! [`Membership`] reads the store of heartbeats periodically, and writes heartbeats if this process is a node. While
//! the store is unavailable the membership view does not change.

#[cfg(test)]
mod tests;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_storage::{HeartbeatStatus, Member, NodeRecord, NodeStore};
use folio_types::{Error, Incarnation, Liveness, Reason, Result};
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use view::MembershipView;

/// Intervals and time limits of the membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipOptions {
    /// Interval between two heartbeats and reads of the store. Default: 1.5 s.
    pub heartbeat: Duration,
    /// Time limit of the store's answer. Default: 1 s.
    pub answer_within: Duration,
}

impl Default for MembershipOptions {
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(1_500), answer_within: Duration::from_secs(1) }
    }
}

/// Returns the record of this node; called before each heartbeat.
pub type Describe = Arc<dyn Fn() -> NodeRecord + Send + Sync>;

/// Membership as this process sees it. Cheap to clone.
#[derive(Clone)]
pub struct Membership {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn NodeStore>,
    options: MembershipOptions,
    known: Mutex<MembershipView>,
    own: Mutex<Option<OwnNode>>,
    /// The live nodes in the last snapshot.
    live: watch::Sender<Arc<Vec<Member>>>,
    /// Number of membership snapshots that reported a newly dead node.
    losses: watch::Sender<u64>,
    /// The incarnation of this process that was declared dead.
    declared_dead: watch::Sender<Option<Incarnation>>,
    /// Callers that wait for a heartbeat that starts after their request: start and drain of the node, and bounded
    /// RPCs.
    waiters: Mutex<Vec<oneshot::Sender<()>>>,
    /// Set if a heartbeat was requested before the next interval.
    soon: Notify,
    tracker: TaskTracker,
    token: CancellationToken,
}

/// The registration of this process as a node.
#[derive(Clone)]
struct OwnNode {
    incarnation: Incarnation,
    describe: Describe,
    /// True if the store has confirmed a heartbeat.
    is_registered: bool,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Membership")
    }
}

impl Membership {
    /// Starts reading the membership. A node then calls [`Membership::join`].
    pub fn start(store: Arc<dyn NodeStore>, options: MembershipOptions) -> Self {
        let fresh_for = options.heartbeat + options.answer_within;
        let inner = Arc::new(Inner {
            store,
            options,
            known: Mutex::new(MembershipView::new(fresh_for)),
            own: Mutex::default(),
            live: watch::Sender::default(),
            losses: watch::Sender::default(),
            declared_dead: watch::Sender::default(),
            waiters: Mutex::default(),
            soon: Notify::new(),
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
        });
        let (sender, token) = (inner.clone(), inner.token.clone());
        inner.tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = sender.heartbeat_forever() => {}
            }
        });
        Self { inner }
    }

    /// Registers this process as a node of this incarnation. Returns once the store knows the node, or after a time
    /// limit: then a later heartbeat registers it.
    pub async fn join(&self, incarnation: Incarnation, describe: Describe) {
        *self.inner.own() = Some(OwnNode { incarnation, describe, is_registered: false });
        self.inner.heartbeat_now().await;
    }

    /// Sends the changed record of this node immediately.
    pub async fn announce(&self) {
        self.inner.heartbeat_now().await;
    }

    /// Reads the store again, unless it has not answered recently.
    pub async fn refresh(&self) {
        if self.answers() {
            self.inner.heartbeat_now().await;
        }
    }

    /// Removes this process from the membership at once, so that other nodes may take its threads over.
    pub async fn leave(&self) {
        let Some(own) = self.inner.own().take() else { return };
        let record = (own.describe)();
        if let Err(error) = self.inner.in_time(self.inner.store.leave(&record)).await {
            tracing::warn!(%error, "cannot leave the membership; the node expires after missed heartbeats");
        }
    }

    /// Returns once this incarnation counts as dead. Its actors must be stopped first.
    pub async fn declared_dead(&self, incarnation: &Incarnation) {
        let mut declared_dead = self.inner.declared_dead.subscribe();
        let _ = declared_dead.wait_for(|dead| dead.as_ref() == Some(incarnation)).await;
    }

    /// Returns the liveness of another incarnation by the current view.
    pub fn liveness(&self, incarnation: &Incarnation) -> Liveness {
        self.inner.known().liveness(incarnation, Instant::now())
    }

    /// Returns the live nodes in the last snapshot, as a channel.
    pub fn live(&self) -> watch::Receiver<Arc<Vec<Member>>> {
        self.inner.live.subscribe()
    }

    /// Returns a counter that is incremented whenever a node is newly dead, so that its turns are found soon.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.inner.losses.subscribe()
    }

    /// Returns true if this process runs the tasks that only one node runs: it is the live node with the smallest
    /// incarnation. While membership views differ, this may be true for two nodes or none.
    pub fn is_first(&self) -> bool {
        let own = self.inner.own().as_ref().map(|own| own.incarnation.clone());
        let live = self.inner.live.borrow();
        let up = live.iter().filter(|member| !member.node.draining).map(|member| &member.node.incarnation);
        own.is_some_and(|own| up.min() == Some(&own))
    }

    /// Returns true if the store answered recently.
    pub fn answers(&self) -> bool {
        self.inner.known().is_fresh(Instant::now())
    }

    /// Stops reading and heartbeats, and waits for their end.
    pub async fn stop(&self) {
        self.inner.token.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }
}

impl Inner {
    fn own(&self) -> MutexGuard<'_, Option<OwnNode>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, MembershipView> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn in_time<T>(&self, query: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| Error::unavailable(Reason::StoreUnavailable, "the store of heartbeats did not answer in time");
        tokio::time::timeout(self.options.answer_within, query).await.map_err(late)?
    }

    async fn heartbeat_forever(&self) {
        loop {
            let waiters = std::mem::take(&mut *self.waiters.lock().unwrap_or_else(PoisonError::into_inner));
            self.heartbeat().await;
            self.read_members().await;
            for waiter in waiters {
                let _ = waiter.send(());
            }
            tokio::select! {
                () = tokio::time::sleep(self.options.heartbeat) => {}
                () = self.soon.notified() => {}
            }
        }
    }

    /// Waits, within bounds, for a complete heartbeat that starts after this call.
    async fn heartbeat_now(&self) {
        let (done, completed) = oneshot::channel();
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.soon.notify_one();
        let bound = self.options.answer_within.saturating_mul(4);
        let _ = tokio::time::timeout(bound, completed).await;
    }

    /// Sends a heartbeat, and reads whether this node still counts as live.
    async fn heartbeat(&self) {
        let Some(own) = self.own().clone() else { return };
        let record = (own.describe)();
        match self.in_time(self.store.heartbeat(&record, !own.is_registered)).await {
            Ok(HeartbeatStatus::Live) => self.change(&own, |own| {
                if let Some(own) = own {
                    own.is_registered = true;
                }
            }),
            Ok(HeartbeatStatus::Dead) => {
                tracing::error!(incarnation = %own.incarnation, "this node counts as dead: it restarts under a new incarnation");
                self.change(&own, |own| *own = None);
                self.declared_dead.send_replace(Some(own.incarnation));
            }
            Err(error) => tracing::warn!(%error, "a heartbeat failed"),
        }
    }

    /// Changes the registration of this process if the process still has the incarnation of the sent heartbeat.
    fn change(&self, sent: &OwnNode, change: impl FnOnce(&mut Option<OwnNode>)) {
        let mut own = self.own();
        if own.as_ref().is_some_and(|own| own.incarnation == sent.incarnation) {
            change(&mut own);
        }
    }

    /// Reads the membership.
    async fn read_members(&self) {
        let asked_at = Instant::now();
        match self.in_time(self.store.nodes()).await {
            Ok(nodes) => {
                let (loses, live) = {
                    let mut known = self.known();
                    (known.apply(nodes, asked_at), known.live())
                };
                self.live.send_replace(Arc::new(live));
                if loses {
                    self.losses.send_modify(|losses| *losses = losses.wrapping_add(1));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the membership"),
        }
    }
}
