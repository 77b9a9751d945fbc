//! What the conversations of this node know of other nodes: from membership, and by asking them.

use async_trait::async_trait;
use folio_cluster::placement::{LoadBound, place};
use folio_cluster::{Membership, NodePeer as _, Peers};
use folio_conversation::Owners;
use folio_types::{Error, Incarnation, Liveness, OrgId, Reason, Result, ThreadId};
use tokio::sync::{Mutex, watch};

/// Every node that sees the same nodes places alike: how much they have to do does not count here, since each hears of it
/// at another time.
const ALIKE: LoadBound = LoadBound { percent: 100, slack: u64::MAX };

/// What is known of other nodes.
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
}

#[async_trait]
impl Owners for ClusterOwners {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        self.membership.liveness(owner)
    }

    async fn liveness_now(&self, owner: &Incarnation) -> Liveness {
        self.membership.look_again().await;
        self.membership.liveness(owner)
    }

    async fn holds(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        let live = self.membership.live().borrow().clone();
        let member = live.iter().find(|member| member.node.incarnation == *owner);
        let address = member.map(|member| member.node.address.clone());
        let address = address.ok_or_else(|| Error::unavailable(Reason::NodeLost, "the owner is not known any more"))?;
        self.peers.at(&address)?.holds(org, thread).await
    }

    async fn placed_here(&self, org: &OrgId, thread: &ThreadId) -> bool {
        let live = self.membership.live().borrow().clone();
        let up: Vec<_> = live.iter().filter(|member| !member.node.draining).collect();
        place(org, thread, up, ALIKE).is_some_and(|member| member.node.incarnation == self.me)
    }

    async fn one_is_gone(&self) {
        if self.losses.lock().await.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
