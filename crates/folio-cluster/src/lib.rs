//! What lies between the gateway and the nodes.
//!
//! [`ConversationPeer`] is all that the gateway knows of a node: it speaks the messages of the public API and carries
//! the principal, so that a node in another process is one more adapter. In one process the node implements it itself.

mod membership;
mod peer;

pub use membership::{Describe, Membership, MembershipOptions};
pub use peer::{ConversationPeer, EventStream, SharedPeer};
