//! Membership: this process says that it lives, and knows who else does.
//!
//! [`Membership`] asks the store of heartbeats at a steady pace, and beats for this process where it is a node. Nothing is
//! decided without an answer: while the store is away everybody keeps what they have.

mod known;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use folio_storage::{Beat, Member, NodeRecord, NodeStore};
use folio_types::{Error, Incarnation, Liveness, Reason, Result};
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use known::Known;

/// The pace of membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipOptions {
    /// How often a node beats, and everybody looks (1.5 s).
    pub heartbeat: Duration,
    /// How long the store may take to answer (1 s).
    pub answer_within: Duration,
}

impl Default for MembershipOptions {
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(1_500), answer_within: Duration::from_secs(1) }
    }
}

/// What a node says of itself, asked before each beat.
pub type Describe = Arc<dyn Fn() -> NodeRecord + Send + Sync>;

/// Membership as this process sees it. Cheap to clone.
#[derive(Clone)]
pub struct Membership {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn NodeStore>,
    options: MembershipOptions,
    known: Mutex<Known>,
    own: Mutex<Option<Own>>,
    /// The nodes that live, by the last answer.
    live: watch::Sender<Arc<Vec<Member>>>,
    /// Counts the answers by which somebody is gone who was not before.
    losses: watch::Sender<u64>,
    /// The incarnation of this process that is over.
    over: watch::Sender<Option<Incarnation>>,
    /// Who waits for a beat that begins after they asked: whoever starts and drains the node, and calls under way, which
    /// are bounded.
    wanted: Mutex<Vec<oneshot::Sender<()>>>,
    /// Somebody wants a beat before its time.
    soon: Notify,
    tracker: TaskTracker,
    token: CancellationToken,
}

/// This process as a node.
#[derive(Clone)]
struct Own {
    incarnation: Incarnation,
    describe: Describe,
    /// The store has answered a beat of it.
    known: bool,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Membership")
    }
}

impl Membership {
    /// Starts to look at who lives. A process that is a node then says so: [`Membership::join`].
    pub fn start(store: Arc<dyn NodeStore>, options: MembershipOptions) -> Self {
        let fresh_for = options.heartbeat + options.answer_within;
        let inner = Arc::new(Inner {
            store,
            options,
            known: Mutex::new(Known::new(fresh_for)),
            own: Mutex::default(),
            live: watch::Sender::default(),
            losses: watch::Sender::default(),
            over: watch::Sender::default(),
            wanted: Mutex::default(),
            soon: Notify::new(),
            tracker: TaskTracker::new(),
            token: CancellationToken::new(),
        });
        let (beating, token) = (inner.clone(), inner.token.clone());
        inner.tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = beating.beat_for_ever() => {}
            }
        });
        Self { inner }
    }

    /// From now on this process is a node of this incarnation. Comes back when the store knows it, or has not answered for
    /// a while: then it is told later.
    pub async fn join(&self, incarnation: Incarnation, describe: Describe) {
        *self.inner.own() = Some(Own { incarnation, describe, known: false });
        self.inner.beat_now().await;
    }

    /// Tells everybody what has changed of this node, now.
    pub async fn tell(&self) {
        self.inner.beat_now().await;
    }

    /// Asks the store once more who lives, unless it has not been answering lately: then nobody waits for it.
    pub async fn look_again(&self) {
        if self.answers() {
            self.inner.beat_now().await;
        }
    }

    /// This process is no node any more, and all know it at once: what it owned may be taken over.
    pub async fn leave(&self) {
        let Some(own) = self.inner.own().take() else { return };
        let record = (own.describe)();
        if let Err(error) = self.inner.in_time(self.inner.store.leave(&record)).await {
            tracing::warn!(%error, "the node could not say that it leaves; it is found silent");
        }
    }

    /// Comes back once this incarnation counts as gone: its actors are to be stopped before anything else.
    pub async fn over(&self, incarnation: &Incarnation) {
        let mut over = self.inner.over.subscribe();
        let _ = over.wait_for(|over| over.as_ref() == Some(incarnation)).await;
    }

    /// How another incarnation stands, as far as can be told now.
    pub fn liveness(&self, incarnation: &Incarnation) -> Liveness {
        self.inner.known().liveness(incarnation, Instant::now())
    }

    /// The nodes that live, by the last answer of the store, kept up to date.
    pub fn live(&self) -> watch::Receiver<Arc<Vec<Member>>> {
        self.inner.live.subscribe()
    }

    /// A number that grows whenever somebody is found to be gone who was not before: its turns are to be found soon.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.inner.losses.subscribe()
    }

    /// Whether this process is, of all nodes that are up, the one that does what one of them does for all: the first by
    /// incarnation. While they disagree about who lives, two may think so, or none.
    pub fn is_first(&self) -> bool {
        let own = self.inner.own().as_ref().map(|own| own.incarnation.clone());
        let live = self.inner.live.borrow();
        let up = live.iter().filter(|member| !member.node.draining).map(|member| &member.node.incarnation);
        own.is_some_and(|own| up.min() == Some(&own))
    }

    /// Whether the store answers.
    pub fn answers(&self) -> bool {
        self.inner.known().is_fresh(Instant::now())
    }

    /// Stops to look and to beat, and waits for that.
    pub async fn stop(&self) {
        self.inner.token.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }
}

impl Inner {
    fn own(&self) -> MutexGuard<'_, Option<Own>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn in_time<T>(&self, asked: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| Error::unavailable(Reason::StoreUnavailable, "the store of heartbeats did not answer in time");
        tokio::time::timeout(self.options.answer_within, asked).await.map_err(late)?
    }

    async fn beat_for_ever(&self) {
        loop {
            let wanted = std::mem::take(&mut *self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
            self.beat().await;
            self.look().await;
            for waits in wanted {
                let _ = waits.send(());
            }
            tokio::select! {
                () = tokio::time::sleep(self.options.heartbeat) => {}
                () = self.soon.notified() => {}
            }
        }
    }

    /// Has a whole beat done that begins after now; waits for it, within bounds.
    async fn beat_now(&self) {
        let (done, beaten) = oneshot::channel();
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.soon.notify_one();
        let bound = self.options.answer_within.saturating_mul(4);
        let _ = tokio::time::timeout(bound, beaten).await;
    }

    /// Says that this node lives, and hears whether it still counts.
    async fn beat(&self) {
        let Some(own) = self.own().clone() else { return };
        let record = (own.describe)();
        match self.in_time(self.store.beat(&record, !own.known)).await {
            Ok(Beat::Kept) => self.change(&own, |own| {
                if let Some(own) = own {
                    own.known = true;
                }
            }),
            Ok(Beat::Gone) => {
                tracing::error!(incarnation = %own.incarnation, "this node counts as gone: it begins anew");
                self.change(&own, |own| *own = None);
                self.over.send_replace(Some(own.incarnation));
            }
            Err(error) => tracing::warn!(%error, "a heartbeat was not answered"),
        }
    }

    /// Changes what this process is, unless it is another incarnation by now.
    fn change(&self, beaten: &Own, change: impl FnOnce(&mut Option<Own>)) {
        let mut own = self.own();
        if own.as_ref().is_some_and(|own| own.incarnation == beaten.incarnation) {
            change(&mut own);
        }
    }

    /// Asks who lives.
    async fn look(&self) {
        let asked_at = Instant::now();
        match self.in_time(self.store.nodes()).await {
            Ok(nodes) => {
                let (loses, live) = {
                    let mut known = self.known();
                    (known.hear(nodes, asked_at), known.live())
                };
                self.live.send_replace(Arc::new(live));
                if loses {
                    self.losses.send_modify(|losses| *losses = losses.wrapping_add(1));
                }
            }
            Err(error) => tracing::warn!(%error, "who lives cannot be asked"),
        }
    }
}
