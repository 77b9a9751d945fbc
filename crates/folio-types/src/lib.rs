//! Ids, limits, error codes and small values, shared by all crates.
//!
//! Every item but [`environment`] is plain data with its validation. This crate contains no async code and no I/O, and
//! imports no other crate of the workspace. Every other crate may import it.

#[macro_use]
mod named_enum;

pub mod access;
pub mod budget;
mod coverage;
pub mod environment;
mod error;
mod etag;
mod hash;
#[macro_use]
mod ids;
mod ingestion;
pub mod json;
pub mod limits;
mod liveness;
pub mod message;
pub mod models;
pub mod notation;
pub mod numbers;
pub mod op;
pub mod page;
pub mod profile;
pub mod seconds;
mod secret;
mod session_token;
pub mod settings;
mod temperature;
pub mod token;
mod truncation;
mod unknown_fields;

pub use access::{Principal, Role};
pub use budget::{BudgetPart, BudgetRoot, BudgetUse};
pub use coverage::{Coverage, INCOMPLETE_PAGES_MAX, counted};
pub use environment::{Environment, System};
pub use error::{Code, Error, FieldViolation, Reason, Result};
pub use etag::Etag;
pub use hash::{hash_parts, uuid_of_parts};
pub use ids::*;
pub use ingestion::IngestionMode;
pub use jiff::Timestamp;
pub use liveness::Liveness;
pub use secret::Secret;
pub use session_token::SessionToken;
pub use temperature::Temperature;
pub use truncation::truncate_bytes;
pub use unknown_fields::UnknownFields;
