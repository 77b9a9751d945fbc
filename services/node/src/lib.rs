//! The node: runs conversations.
//!
//! [`Node`] builds the dependencies of the conversations, starts them, and is the [`ConversationPeer`] of this process.
//!
//! [`ConversationPeer`]: folio_cluster::ConversationPeer

mod node;
mod owners;
mod peer;

pub use folio_conversation::{Options, SharedTurnStores};
pub use node::{ClusterParts, Node, NodeParts};
