//! Membership: incarnations of nodes and their heartbeats.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// The content of a node's heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The incarnation of the process.
    pub incarnation: Incarnation,
    /// The address for its peers.
    pub address: String,
    /// Whether the node accepts no new conversations.
    pub draining: bool,
    /// Number of conversations in memory.
    pub conversations: u64,
    /// Number of conversations with a running turn.
    #[serde(default)]
    pub turns_running: u64,
    /// Maximum number of conversations.
    pub capacity: u64,
    /// The start time of the process.
    pub started_at: Timestamp,
    /// The version of the build.
    pub version: String,
}

/// The result of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatStatus {
    /// The node counts as live.
    Live,
    /// The incarnation left, or missed heartbeats for too long: the node must stop its actors first and rejoin as a new
    /// incarnation. The store rejects this incarnation for as long as it remembers it.
    Dead,
}

/// A node with its liveness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The last heartbeat.
    pub node: NodeRecord,
    /// Time since the last heartbeat during which the store was available.
    pub silent_for: Duration,
    /// Whether the node left or missed heartbeats for too long: its turns have no owner.
    pub is_dead: bool,
}

/// All nodes that the store lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Live nodes and recently dead ones, in no order.
    pub members: Vec<Member>,
    /// Time for which the store has had its data and was available without a gap.
    pub answering_for: Duration,
    /// Time without a heartbeat after which a node is dead.
    pub dead_after: Duration,
}

impl Nodes {
    /// Returns whether an incarnation is dead, so that its turns may be taken over. An unlisted incarnation is dead
    /// once the store has been available long enough that a live one would have sent a heartbeat.
    pub fn is_dead(&self, incarnation: &Incarnation) -> bool {
        match self.members.iter().find(|member| member.node.incarnation == *incarnation) {
            Some(member) => member.is_dead,
            None => self.answering_for > self.dead_after,
        }
    }

    /// Returns the live nodes, including draining ones.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.is_dead)
    }
}

/// Membership of the cluster.
///
/// Only time during which the store is available counts as silence. The store detects its own downtime from the gap
/// between the calls that reach it: while a node lives, calls are never as far apart as half of `dead_after`.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// Stores a heartbeat. `joins`: the first heartbeat of an incarnation, which registers it. A later heartbeat of an
    /// unlisted incarnation registers it again if the data is younger than `dead_after` (the store lost it); otherwise
    /// the incarnation is dead.
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus>;

    /// Removes an incarnation, immediately and permanently.
    async fn leave(&self, node: &NodeRecord) -> Result<()>;

    /// Returns all nodes. This read marks nodes that missed heartbeats for too long as dead.
    async fn nodes(&self) -> Result<Nodes>;
}
