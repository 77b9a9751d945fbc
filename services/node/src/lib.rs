//! A node of a cluster, which runs conversations and jobs.
//!
//! [`Node`] creates the supervisors of conversations and jobs with their dependencies, and implements [`ConversationPeer`],
//! through which other processes call the conversations of this process.
//!
//! [`ConversationPeer`]: folio_cluster::ConversationPeer

mod agent_jobs;
mod auto_create_jobs;
mod document_images;
mod extraction_jobs;
mod node;
mod owners;
mod peer;
mod stack_jobs;

pub use document_images::DocumentImages;
pub use folio_conversation::{Options, SharedTurnStores};
pub use node::{ClusterParts, JobParts, Node, NodeParts};
