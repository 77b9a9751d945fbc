//! The index of passages in a cluster without an index server: each organization is placed on one node, which has its
//! index in a folder.
//!
//! | type | task |
//! |---|---|
//! | [`PlacedIndex`] | adapter for every process: routes each call to the node on which the organization is placed |
//! | [`NodeIndex`] | adapter of a node over its own folder; refuses organizations that are placed elsewhere, and knows whether its index is complete |
//! | [`IndexServer`] | the calls of other processes to the index of a node |
//!
//! Placement is that of threads: rendezvous hashing over the live nodes that do not drain. When the placement of an
//! organization changes, its index on the new node is missing or incomplete. Searches name this gap until the caller has
//! rebuilt the index, as for every index that is not ready.

mod call;
mod node;
mod parts;
mod placed;
mod server;

pub use node::{NodeIndex, maintain};
pub use placed::{Nodes, PlacedIndex, Placement};
pub use server::IndexServer;
