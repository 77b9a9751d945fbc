//! The node: hosts the conversations and speaks for them.
//!
//! [`Node`] composes what conversations are built on, starts them, and is the [`ConversationPeer`] of this process: it
//! translates between the messages of the public API and the commands and events of `folio-conversation`, which knows
//! neither.
//!
//! [`ConversationPeer`]: folio_cluster::ConversationPeer

mod node;
mod owners;
mod peer;

pub use folio_conversation::SharedTurnStores;
pub use node::{ClusterParts, Node, NodeParts, Options};
