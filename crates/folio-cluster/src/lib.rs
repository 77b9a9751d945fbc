//! What lies between the gateway and the nodes.
//!
//! [`ConversationPeer`] is all that the gateway knows of a node: it speaks the messages of the public API and carries
//! the principal. In one process the node implements it itself. Between processes there are two adapters of it:
//!
//! - [`RemotePeer`], a node in another process, behind [`NodeServer`] there;
//! - [`Router`], all of them: it finds the node of a thread and asks it.
//!
//! Who is there, [`Membership`] knows by the store of heartbeats; where a thread belongs is the pure function
//! [`place`](placement::place). This crate never knows how a turn works, nor who owns a thread: nodes say so.

mod calls;
mod context;
pub mod dev_certs;
mod membership;
mod options;
mod peer;
pub mod placement;
mod remote;
mod router;
mod seal;
mod server;
mod service;
mod shutdown;
mod spans;
mod streams;
mod tls;

pub use context::{CallContext, trace_of};
pub use membership::{Describe, Membership, MembershipOptions};
pub use options::{NODE_NAME, Options, TlsOptions};
pub use peer::{ConversationPeer, EventStream, NodePeer, NodeStatus, SharedPeer};
pub use remote::{Peers, RemotePeer};
pub use router::Router;
pub use server::NodeServer;
pub use shutdown::{Shutdown, draining, survive};
pub use streams::{Limited, Limits, limited};
