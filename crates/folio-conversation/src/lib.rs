//! Conversations: one supervised actor for each live thread, and the turn that it runs.
//!
//! [`Conversations`] is the way in: it finds or starts the actor of a thread, admits the request and hands back events or
//! an answer. What a turn may do, what it writes and what its history looks like is decided by the pure machine in
//! `turn`; the actor performs the machine's effects. This crate knows neither gRPC nor the cluster: services translate.

mod command;
#[allow(dead_code, unused_imports, reason = "used by the actor that comes next")]
mod context;
mod handle;
mod options;
mod snapshot;
mod stream;
pub mod turn;

pub use command::{
    ApproveAnswer, ApproveCommand, CallDecision, ChatCommand, ForkCommand, IfBusy, IfPending, NewThreadCommand,
};
pub use handle::{Conversations, Dependencies};
pub use options::Options;
pub use snapshot::{ActorPhase, ConversationView, Snapshot};
pub use stream::EventStream;
