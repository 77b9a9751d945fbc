//! The interface of a node for other processes of the cluster.

use async_trait::async_trait;
use folio_history::peer::ConversationPeer;
use folio_types::{Incarnation, OrgId, Result, ThreadId, Timestamp};

/// A node as other processes of the cluster call it.
#[async_trait]
pub trait NodePeer: ConversationPeer {
    /// Returns true if the node runs a turn of the thread or a request on it. If false while the node drains, another
    /// node may take over the thread.
    async fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// Makes an encoded call of the index of passages of an organization, and returns the encoded result.
    async fn call_index(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>>;

    async fn status(&self) -> Result<NodeStatus>;
}

/// The encoded calls of the index of passages on a node.
#[async_trait]
pub trait IndexCalls: Send + Sync {
    /// Makes a call, and returns its result.
    async fn call(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    pub incarnation: Incarnation,
    /// If true, the node accepts no new work, and running turns end normally.
    pub draining: bool,
    /// Number of conversations in memory.
    pub conversations: u64,
    /// Number of conversations with work in progress.
    pub busy_conversations: u64,
    pub version: String,
    pub started_at: Timestamp,
}
