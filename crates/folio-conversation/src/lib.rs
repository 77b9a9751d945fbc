//! Conversations: one supervised actor per thread in use, and the turn that the actor runs.
//!
//! [`Conversations`] is the entry point: it finds or starts the actor of a thread, admits the request and returns
//! events or an answer. The pure machine in `turn` decides transitions, writes and the history of a turn; the actor
//! performs the effects of the machine. The crate must not know gRPC or the cluster.

mod actor;
mod audit;
mod context;
mod current_access;
mod events;
mod failpoint;
mod group;
mod handle;
mod options;
mod owners;
mod prepare;
mod publish;
mod request_parts;
mod shared;
mod snapshot;
mod supervisor;
#[cfg(test)]
mod tests;
pub mod turn;
mod window;
mod work;

#[cfg(any(test, debug_assertions, feature = "failpoints"))]
pub use failpoint::Action;
pub use failpoint::{FailpointFunction, Failpoints};
pub use handle::{Conversations, Dependencies};
pub use options::Options;
pub use owners::{Owners, SingleProcessOwners};
pub use publish::SharedTurnStores;
pub use snapshot::{ActorPhase, ConversationView, Snapshot};
