//! A node of a cluster, which runs conversations and jobs.
//!
//! [`Node`] starts the conversations with their dependencies, and is the [`ConversationPeer`] of this process.
//!
//! [`ConversationPeer`]: folio_cluster::ConversationPeer

mod agent_jobs;
mod auto_create_jobs;
mod extraction_jobs;
mod node;
mod owners;
mod peer;

pub use folio_conversation::{Options, SharedTurnStores};
pub use node::{ClusterParts, JobParts, Node, NodeParts};
