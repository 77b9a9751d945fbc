//! Membership: incarnations of nodes and their heartbeats.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// The content of a node's heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub incarnation: Incarnation,
    /// The address at which its peers reach the node.
    pub address: String,
    /// True: the node accepts no new conversations.
    pub draining: bool,
    /// Number of conversations in memory.
    pub conversations: u64,
    #[serde(default)]
    pub busy_conversations: u64,
    /// Maximum number of conversations.
    pub capacity: u64,
    pub started_at: Timestamp,
    pub version: String,
}

impl NodeRecord {
    /// Returns the record of an idle node without a version, started at the epoch.
    pub fn new(incarnation: Incarnation, address: impl Into<String>, capacity: u64) -> Self {
        Self {
            incarnation,
            address: address.into(),
            draining: false,
            conversations: 0,
            busy_conversations: 0,
            capacity,
            started_at: Timestamp::UNIX_EPOCH,
            version: String::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatStatus {
    Live,
    /// The incarnation left, or missed heartbeats for too long. The node must stop its actors and then rejoin as a new
    /// incarnation. The store rejects this incarnation while it lists it.
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    pub node: NodeRecord,
    /// Time since the last heartbeat during which the store was available.
    pub silent_for: Duration,
    /// True if the node left or missed heartbeats for too long: its turns have no owner.
    pub is_dead: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipSnapshot {
    /// Live nodes and recently dead ones, in no order.
    pub members: Vec<ClusterNode>,
    /// Time for which the store has continuously had its data and been available.
    pub available_for: Duration,
    /// Time without a heartbeat after which a node is dead.
    pub dead_after: Duration,
}

impl MembershipSnapshot {
    /// Returns true if an incarnation is dead, so that its turns may be taken over. An unlisted incarnation is dead
    /// once the store has been available long enough that a live node would have sent a heartbeat.
    pub fn is_dead(&self, incarnation: &Incarnation) -> bool {
        match self.members.iter().find(|member| member.node.incarnation == *incarnation) {
            Some(member) => member.is_dead,
            None => self.available_for > self.dead_after,
        }
    }

    /// Returns the live nodes, including draining ones.
    pub fn live(&self) -> impl Iterator<Item = &ClusterNode> {
        self.members.iter().filter(|member| !member.is_dead)
    }
}

/// Membership of the cluster.
///
/// Only time during which the store is available counts as silence. The store detects its own downtime from the gap
/// between the calls that reach it: while a node is live, this gap is at most half of `dead_after`.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Stores a heartbeat. `joins`: the first heartbeat of an incarnation, which registers it. A later heartbeat of an
    /// unlisted incarnation registers it again if the store's data is younger than `dead_after`, because the store lost
    /// the registration; otherwise the incarnation is dead.
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus>;

    /// Removes an incarnation, immediately and permanently.
    async fn leave(&self, node: &NodeRecord) -> Result<()>;

    /// Returns all nodes, after marking nodes that missed heartbeats for too long as dead.
    async fn nodes(&self) -> Result<MembershipSnapshot>;
}
