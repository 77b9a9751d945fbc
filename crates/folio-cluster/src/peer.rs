//! The interface of a node for other processes of the cluster.

use async_trait::async_trait;
use folio_history::peer::ConversationPeer;
use folio_types::{Incarnation, OrgId, Result, ThreadId, Timestamp};

/// A node, as other processes of the cluster use it.
#[async_trait]
pub trait NodePeer: ConversationPeer {
    /// Returns true if a turn of the thread runs on the node or a request on the thread is in progress. If not, and the
    /// node drains, another node may take the thread over.
    async fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// Returns the identity and the load of the node.
    async fn status(&self) -> Result<NodeStatus>;
}

/// Identity and load of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// True if the node drains: it accepts no new work, and running turns end normally.
    pub draining: bool,
    /// Number of conversations in memory.
    pub conversations: u64,
    /// Number of conversations with work in progress.
    pub turns_running: u64,
    /// Version of the program.
    pub version: String,
    /// Time at which the node started.
    pub started_at: Timestamp,
}
