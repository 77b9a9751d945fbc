//! A node's life: started, serving, drained; in a cluster, begun anew where the others count it as gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use folio_cluster::{Describe, Membership, Peers};
use folio_conversation::{AloneOwners, Conversations, Dependencies, Failpoints, Owners, Snapshot, TurnShare};
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::{NodeRecord, Slots, Stores};
use folio_tools::Registry;
use folio_types::{Environment, Incarnation, Result, Timestamp};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::owners::ClusterOwners;

/// Pause before a node that could not begin anew tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// Settings of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Settings of its conversations.
    pub conversations: folio_conversation::Options,
}

/// What a node is built on.
#[derive(Clone)]
pub struct NodeParts {
    /// The stores.
    pub stores: Stores,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The meter that sees every model call.
    pub meter: SharedMeter,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// The slots of turns that run.
    pub turn_slots: Slots,
    /// Where it tells of its turns.
    pub share: TurnShare,
    /// The other nodes; none: there are no others.
    pub cluster: Option<ClusterParts>,
}

/// What makes a node one of several.
#[derive(Clone)]
pub struct ClusterParts {
    /// Who lives. The node joins, drains and leaves by itself.
    pub membership: Membership,
    /// Where its peers reach it: `host:port`.
    pub address: String,
    /// How it reaches its peers.
    pub peers: Peers,
}

/// A node: the conversations of this process. Cheap to clone; with the last one everything stops.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    parts: NodeParts,
    started_at: Timestamp,
    life: RwLock<Life>,
    draining: AtomicBool,
    token: CancellationToken,
    tracker: TaskTracker,
}

/// One incarnation.
#[derive(Clone)]
struct Life {
    incarnation: Incarnation,
    conversations: Conversations,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("incarnation", &self.incarnation()).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node under a fresh incarnation. What an earlier life of this process left running is found and ended
    /// before it comes back, here or on another node.
    pub async fn start(options: Options, parts: NodeParts) -> Result<Self> {
        let life = Life::begin(&options, &parts).await?;
        let inner = Arc::new(Inner {
            started_at: parts.environment.now(),
            options,
            parts,
            life: RwLock::new(life),
            draining: AtomicBool::new(false),
            token: CancellationToken::new(),
            tracker: TaskTracker::new(),
        });
        if let Some(cluster) = &inner.parts.cluster {
            inner.join(&cluster.membership).await;
            let (token, lives) = (inner.token.clone(), live_again(Arc::downgrade(&inner), cluster.membership.clone()));
            inner.tracker.spawn(async move {
                tokio::select! {
                    () = token.cancelled() => {}
                    () = lives => {}
                }
            });
        }
        Ok(Self { inner })
    }

    /// This life of the node. In a cluster another one follows where the others count this one as gone.
    pub fn incarnation(&self) -> Incarnation {
        self.inner.life().incarnation
    }

    /// When the process became a node.
    pub fn started_at(&self) -> Timestamp {
        self.inner.started_at
    }

    /// The conversations of this life.
    pub(crate) fn conversations(&self) -> Conversations {
        self.inner.life().conversations
    }

    /// What can be seen of its conversations now.
    pub fn snapshot(&self) -> Snapshot {
        self.conversations().snapshot()
    }

    /// Tells the other nodes, refuses new work, lets running turns end until the deadline and hands back what rests, then
    /// stops what is left: it is found and ended as failed, retriable. Waiting turns lose nothing.
    pub async fn drain(&self, deadline: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        let membership = self.inner.parts.cluster.as_ref().map(|cluster| &cluster.membership);
        if let Some(membership) = membership {
            membership.tell().await;
        }
        let life = self.inner.life();
        life.conversations.drain(deadline).await;
        self.inner.token.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
        if let Some(membership) = membership {
            membership.leave().await;
        }
        tracing::info!(incarnation = %life.incarnation, "node drained");
    }
}

impl Life {
    async fn begin(options: &Options, parts: &NodeParts) -> Result<Self> {
        let incarnation = Incarnation::generate(parts.environment.as_ref());
        let owners: Arc<dyn Owners> = match &parts.cluster {
            None => Arc::new(AloneOwners),
            Some(ClusterParts { membership, peers, .. }) => {
                Arc::new(ClusterOwners::new(incarnation.clone(), membership.clone(), peers.clone()))
            }
        };
        let dependencies = Dependencies {
            stores: parts.stores.clone(),
            models: parts.models.clone(),
            meter: parts.meter.clone(),
            turn_slots: parts.turn_slots.clone(),
            tools: Registry::standard()?,
            environment: parts.environment.clone(),
            incarnation: incarnation.clone(),
            owners,
            share: Some(parts.share.clone()),
            failpoints: Failpoints::from_environment(),
        };
        let conversations = Conversations::start(dependencies, options.conversations.clone()).await?;
        tracing::info!(%incarnation, "node started");
        Ok(Self { incarnation, conversations })
    }
}

impl Inner {
    fn life(&self) -> Life {
        self.life.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Makes the present life a member.
    async fn join(self: &Arc<Self>, membership: &Membership) {
        let incarnation = self.life().incarnation;
        membership.join(incarnation.clone(), self.describe(incarnation)).await;
    }

    fn describe(self: &Arc<Self>, incarnation: Incarnation) -> Describe {
        let me: Weak<Self> = Arc::downgrade(self);
        let address = self.parts.cluster.as_ref().map(|cluster| cluster.address.clone()).unwrap_or_default();
        let (capacity, started_at) = (self.options.conversations.live_max, self.started_at);
        Arc::new(move || {
            let node = me.upgrade();
            let snapshot = node.as_ref().map(|node| node.life().conversations.snapshot()).unwrap_or_default();
            NodeRecord {
                incarnation: incarnation.clone(),
                address: address.clone(),
                draining: node.is_none_or(|node| node.is_draining()),
                conversations: snapshot.live as u64,
                turns_running: snapshot.working as u64,
                capacity: capacity as u64,
                started_at,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }
        })
    }
}

/// Begins another life each time that the present one counts as gone. Its actors stop before anything else: what they had
/// in flight loses at the fence, at an op row, or at a sealed block.
async fn live_again(node: Weak<Inner>, membership: Membership) {
    loop {
        let Some(life) = node.upgrade().map(|node| node.life()) else { return };
        membership.over(&life.incarnation).await;
        life.conversations.stop().await;
        let Some(node) = node.upgrade().filter(|node| !node.is_draining()) else { return };
        match Life::begin(&node.options, &node.parts).await {
            Ok(next) => {
                *node.life.write().unwrap_or_else(PoisonError::into_inner) = next;
                node.join(&membership).await;
            }
            Err(error) => {
                tracing::error!(%error, "the node cannot begin anew yet");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}
