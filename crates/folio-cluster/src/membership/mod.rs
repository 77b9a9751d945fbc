//! Membership: heartbeats of this process, and the liveness of the other nodes.
//!
//! [`Membership`] reads the store of heartbeats periodically, and writes heartbeats if this process is a node. While
//! the store is unavailable, the membership view does not change.

#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_storage::{ClusterNode, HeartbeatStatus, NodeRecord, NodeStore};
use folio_types::{Error, Incarnation, Liveness, Reason, Result};
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use view::MembershipView;

folio_types::with_defaults! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct MembershipOptions {
        /// Interval between two heartbeats, and between two reads of the store. Default: 1.5 s.
        pub heartbeat: Duration = Duration::from_millis(1_500),
        /// Timeout of a store operation. Default: 1 s.
        pub store_timeout: Duration = Duration::from_secs(1),
    }
}

/// Returns the record of this node; called before each heartbeat.
pub type Describe = Arc<dyn Fn() -> NodeRecord + Send + Sync>;

/// The membership view of this process. Cheap to clone.
#[derive(Clone)]
pub struct Membership {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn NodeStore>,
    options: MembershipOptions,
    view: Mutex<MembershipView>,
    own: Mutex<Option<OwnNode>>,
    live: watch::Sender<Arc<Vec<ClusterNode>>>,
    /// Number of membership snapshots that reported a newly dead node.
    losses: watch::Sender<u64>,
    /// The last incarnation of this process that was declared dead.
    declared_dead: watch::Sender<Option<Incarnation>>,
    /// Callers of `heartbeat_now`, notified after a heartbeat that started after their call.
    waiters: Mutex<Vec<oneshot::Sender<()>>>,
    /// Notified to send the next heartbeat before the interval has passed.
    heartbeat_now: Notify,
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
    /// Starts to read the membership periodically. A node then calls [`Membership::join`].
    pub fn start(store: Arc<dyn NodeStore>, options: MembershipOptions) -> Self {
        let fresh_for = options.heartbeat + options.store_timeout;
        let inner = Arc::new(Inner {
            store,
            options,
            view: Mutex::new(MembershipView::new(fresh_for)),
            own: Mutex::default(),
            live: watch::Sender::default(),
            losses: watch::Sender::default(),
            declared_dead: watch::Sender::default(),
            waiters: Mutex::default(),
            heartbeat_now: Notify::new(),
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
        });
        let (task, token) = (inner.clone(), inner.token.clone());
        inner.tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = task.heartbeat_forever() => {}
            }
        });
        Self { inner }
    }

    /// Registers this process as a node. Returns after the first heartbeat, or after a time limit; a later heartbeat
    /// then registers the node.
    pub async fn join(&self, incarnation: Incarnation, describe: Describe) {
        *self.inner.own() = Some(OwnNode { incarnation, describe, is_registered: false });
        self.inner.heartbeat_now().await;
    }

    /// Publishes the current record of this node immediately.
    pub async fn announce(&self) {
        self.inner.heartbeat_now().await;
    }

    /// Reads the store immediately, unless it is unavailable.
    pub async fn refresh(&self) {
        if self.is_store_available() {
            self.inner.heartbeat_now().await;
        }
    }

    /// Removes this process from the membership, so that other nodes may take over its threads. A failure is logged.
    pub async fn leave(&self) {
        let Some(own) = self.inner.own().take() else { return };
        let record = (own.describe)();
        if let Err(error) = self.inner.within_timeout(self.inner.store.leave(&record)).await {
            tracing::warn!(%error, "cannot leave the membership; the node expires after missed heartbeats");
        }
    }

    /// Waits until this incarnation is declared dead. The caller then stops its actors.
    pub async fn declared_dead(&self, incarnation: &Incarnation) {
        let mut declared_dead = self.inner.declared_dead.subscribe();
        let _ = declared_dead.wait_for(|dead| dead.as_ref() == Some(incarnation)).await;
    }

    pub fn liveness(&self, incarnation: &Incarnation) -> Liveness {
        self.inner.view().liveness(incarnation, Instant::now())
    }

    /// Returns the live nodes in the last snapshot.
    pub fn live(&self) -> watch::Receiver<Arc<Vec<ClusterNode>>> {
        self.inner.live.subscribe()
    }

    /// Returns a counter that is incremented whenever a snapshot reports a newly dead node.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.inner.losses.subscribe()
    }

    /// Returns true if this process runs the tasks that only one node runs: it is the live, not draining node with the
    /// smallest incarnation. While membership views differ, this may be true for two nodes or none.
    pub fn is_first(&self) -> bool {
        let own = self.inner.own().as_ref().map(|own| own.incarnation.clone());
        let live = self.inner.live.borrow();
        let up = live.iter().filter(|member| !member.node.draining).map(|member| &member.node.incarnation);
        own.is_some_and(|own| up.min() == Some(&own))
    }

    /// Returns true if the last snapshot is fresh.
    pub fn is_store_available(&self) -> bool {
        self.inner.view().is_fresh(Instant::now())
    }

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

    fn view(&self) -> MutexGuard<'_, MembershipView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn within_timeout<T>(&self, query: impl Future<Output = Result<T>>) -> Result<T> {
        let timed_out =
            |_| Error::unavailable(Reason::StoreUnavailable, "the store of heartbeats did not answer in time");
        tokio::time::timeout(self.options.store_timeout, query).await.map_err(timed_out)?
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
                () = self.heartbeat_now.notified() => {}
            }
        }
    }

    /// Waits, within bounds, for a heartbeat and a read that start after this call.
    async fn heartbeat_now(&self) {
        let (done, completed) = oneshot::channel();
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.heartbeat_now.notify_one();
        let bound = self.options.store_timeout.saturating_mul(4);
        let _ = tokio::time::timeout(bound, completed).await;
    }

    /// Sends a heartbeat and applies the returned liveness of this node.
    async fn heartbeat(&self) {
        let Some(own) = self.own().clone() else { return };
        let record = (own.describe)();
        match self.within_timeout(self.store.heartbeat(&record, !own.is_registered)).await {
            Ok(HeartbeatStatus::Live) => self.change(&own, |own| {
                if let Some(own) = own {
                    own.is_registered = true;
                }
            }),
            Ok(HeartbeatStatus::Dead) => {
                tracing::error!(incarnation = %own.incarnation, "this node was declared dead; restarting under a new incarnation");
                self.change(&own, |own| *own = None);
                self.declared_dead.send_replace(Some(own.incarnation));
            }
            Err(error) => tracing::warn!(%error, "cannot send a heartbeat"),
        }
    }

    /// Changes the registration of this process, unless the incarnation changed after the heartbeat was sent.
    fn change(&self, sent: &OwnNode, change: impl FnOnce(&mut Option<OwnNode>)) {
        let mut own = self.own();
        if own.as_ref().is_some_and(|own| own.incarnation == sent.incarnation) {
            change(&mut own);
        }
    }

    async fn read_members(&self) {
        let requested_at = Instant::now();
        match self.within_timeout(self.store.nodes()).await {
            Ok(nodes) => {
                let (has_losses, live) = {
                    let mut view = self.view();
                    (view.apply(nodes, requested_at), view.live())
                };
                self.live.send_replace(Arc::new(live));
                if has_losses {
                    self.losses.send_modify(|losses| *losses = losses.wrapping_add(1));
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the membership"),
        }
    }
}
