//! The data model of conversations and jobs: thread headers, journal entries, the pure fold of a journal into a history,
//! and the pure state machine of a job ([`job`]).
//!
//! A thread is an append-only journal ([`journal::Entry`]) plus one header ([`thread::ThreadHeader`]) on which every
//! append is conditional. Readers and models see only the fold ([`History`]), so the history has no second copy.
//! [`peer::ConversationPeer`] is the interface of the node that owns a thread. The crate contains data, pure functions
//! and that interface: no I/O, no runtime, no clock. It must not know storage adapters, gRPC, models or tools.

mod call;
pub mod command;
pub mod event;
mod fold;
pub mod graph;
pub mod job;
pub mod journal;
pub mod peer;
pub mod reference;
pub mod task;
pub mod thread;
mod thread_append;
pub mod thread_write;
mod turn_profile;
mod working_state;

pub use fold::*;
