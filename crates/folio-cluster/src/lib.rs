//! The connection between the gateway and the nodes.
//!
//! [`ConversationPeer`](folio_history::peer::ConversationPeer) is the interface to a node: it takes commands with their
//! principal. The node implements it within its process. Two adapters implement it between processes:
//!
//! - [`RemotePeer`]: a node in another process, behind its [`NodeServer`];
//! - [`Router`]: all nodes; it finds the node of a thread and calls it.
//!
//! [`Membership`] derives the live nodes from the store of heartbeats; [`place`](placement::place) is the pure function
//! that places a thread. This crate must not know turns or the owners of threads: nodes redirect to the owner.

mod calls;
mod context;
pub mod dev_certs;
mod membership;
mod options;
mod peer;
pub mod placement;
mod remote;
mod router;
mod server;
mod service;
mod shutdown;
mod signed_principal;
mod spans;
mod streams;
mod tls;

pub use context::{CallContext, trace_of};
pub use membership::{Describe, Membership, MembershipOptions};
pub use options::{NODE_NAME, Options, TlsOptions};
pub use peer::{IndexCalls, NodePeer, NodeStatus};
pub use remote::{Peers, RemotePeer};
pub use router::Router;
pub use server::NodeServer;
pub use shutdown::{Shutdown, catch_panic, draining};
pub use streams::{LimitedStream, StreamLimits, limited};
