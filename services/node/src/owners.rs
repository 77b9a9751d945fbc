//! Liveness and placement of nodes for the conversations and the jobs of this node.

use async_trait::async_trait;
use folio_cluster::placement::place_regardless_of_load;
use folio_cluster::{Membership, NodePeer as _, Peers};
use folio_conversation::Owners;
use folio_jobs::Placement;
use folio_types::{Error, Incarnation, JobId, Liveness, OrgId, Reason, Result, ThreadId};
use tokio::sync::{Mutex, watch};

pub(crate) struct ClusterOwners {
    me: Incarnation,
    membership: Membership,
    peers: Peers,
    losses: Mutex<watch::Receiver<u64>>,
}

impl ClusterOwners {
    pub(crate) fn new(me: Incarnation, membership: Membership, peers: Peers) -> Self {
        let losses = Mutex::new(membership.losses());
        Self { me, membership, peers, losses }
    }

    fn is_here(&self, org: &OrgId, id: &str) -> bool {
        let live = self.membership.live().borrow().clone();
        place_regardless_of_load(org, id, &live).is_some_and(|member| member.node.incarnation == self.me)
    }

    async fn next_loss(&self) {
        if self.losses.lock().await.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[async_trait]
impl Owners for ClusterOwners {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        self.membership.liveness(owner)
    }

    async fn liveness_now(&self, owner: &Incarnation) -> Liveness {
        self.membership.refresh().await;
        self.membership.liveness(owner)
    }

    async fn is_thread_active(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        let live = self.membership.live().borrow().clone();
        let member = live.iter().find(|member| member.node.incarnation == *owner);
        let address = member.map(|member| member.node.address.clone());
        let address = address.ok_or_else(|| Error::unavailable(Reason::NodeLost, "the owner left the membership"))?;
        self.peers.at(&address)?.is_thread_active(org, thread).await
    }

    async fn is_placed_here(&self, org: &OrgId, thread: &ThreadId) -> bool {
        self.is_here(org, thread.as_str())
    }

    async fn wait_for_node_loss(&self) {
        self.next_loss().await;
    }
}

#[async_trait]
impl Placement for ClusterOwners {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        self.membership.liveness(owner)
    }

    async fn is_placed_here(&self, org: &OrgId, job: &JobId) -> bool {
        self.is_here(org, job.as_str())
    }

    async fn wait_for_node_loss(&self) {
        self.next_loss().await;
    }
}
