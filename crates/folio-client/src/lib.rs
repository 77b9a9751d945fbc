#![doc = include_str!("../README.md")]
//!
//! Each module has one purpose: [`Client`] is the connection, and the other modules add methods to it. `retry`, `approval`,
//! `TurnPosition`, `watched_items` and `watched_table` decide without I/O.

mod approval;
mod assistant;
mod connection;
mod error;
mod extraction;
mod job;
mod list;
mod rejoined;
mod retry;
mod table;
mod turn;
mod turn_position;
mod upload;
mod watch;
mod watched_items;
mod watched_table;
pub mod webhook;

pub use approval::{Approval, Decision};
pub use assistant::{Answer, Question};
pub use connection::{Authorized, Client, Connect, ConnectError, endpoint, token_source};
pub use error::{Error, Result};
pub use folio_proto::v1;
pub use folio_types::{Code, FieldViolation, Reason};
pub use job::JobStates;
pub use rejoined::Update;
pub use retry::RetryPolicy;
pub use table::TableWatch;
pub use turn::{Events, Start, Turn};
pub use turn_position::TurnPosition;
pub use watch::Watch;
pub use watched_items::{ItemChange, WatchResponse};
