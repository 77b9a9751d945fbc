//! Who is there: incarnations of nodes and their heartbeats.

use std::time::Duration;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};
use serde::{Deserialize, Serialize};

/// What a node says of itself with each heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// This life of it.
    pub incarnation: Incarnation,
    /// Where its peers reach it.
    pub address: String,
    /// It takes nothing new.
    pub draining: bool,
    /// Conversations that it holds.
    pub conversations: u64,
    /// Conversations that have work.
    #[serde(default)]
    pub turns_running: u64,
    /// Conversations that it can hold.
    pub capacity: u64,
    /// When it started.
    pub started_at: Timestamp,
    /// Its build.
    pub version: String,
}

/// What a heartbeat became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// The node counts as live.
    Kept,
    /// This incarnation left, or was without a heartbeat for too long: it must stop its actors before anything else and come
    /// back as a new one. It is never kept again, as long as the store remembers.
    Gone,
}

/// A node as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What it said last.
    pub node: NodeRecord,
    /// How long the store has been answering without its heartbeat.
    pub silent_for: Duration,
    /// It left, or was silent for too long: its turns have no owner.
    pub gone: bool,
}

/// Every node that the store knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// Live ones and those that went lately, in no order.
    pub members: Vec<Member>,
    /// How long the store has had its data and has been answering without a gap.
    pub answering_for: Duration,
    /// From which silence on a node is gone.
    pub gone_after: Duration,
}

impl Nodes {
    /// Whether an incarnation is gone, so that its turns may be taken over. One that is not known is gone once the store
    /// has been answering for long enough that a live one would have said so again.
    pub fn is_gone(&self, incarnation: &Incarnation) -> bool {
        match self.members.iter().find(|member| member.node.incarnation == *incarnation) {
            Some(member) => member.gone,
            None => self.answering_for > self.gone_after,
        }
    }

    /// Nodes that live, draining ones too.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| !member.gone)
    }
}

/// Nodes.
///
/// A silence is counted only while the store answers: what nobody could have said is no silence. The store knows that it
/// was away from the gap between the calls that reach it, which are never as far apart as half of `gone_after` while a
/// node lives.
#[async_trait]
pub trait NodeStore: Send + Sync {
    /// A heartbeat. The first one of an incarnation registers it: `joins`. A later one that finds nothing of it registers
    /// it again if the data is younger than `gone_after` (the store lost it), else it is gone.
    async fn beat(&self, node: &NodeRecord, joins: bool) -> Result<Beat>;

    /// Takes an incarnation away, at once and for good.
    async fn leave(&self, node: &NodeRecord) -> Result<()>;

    /// Every node. A silence that is too long is made final by this read.
    async fn nodes(&self) -> Result<Nodes>;
}
