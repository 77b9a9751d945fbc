//! The words of Folio: ids, limits, error codes and domain types.
//!
//! Everything here is plain data with its checks. This crate knows neither async nor I/O, and imports no other crate of
//! the workspace; every other crate may import it.

pub mod access;
pub mod audit;
pub mod breaker;
pub mod credit;
pub mod document;
pub mod environment;
mod error;
pub mod extraction;
pub mod fields;
mod ids;
pub mod json;
pub mod limits;
pub mod message;
pub mod models;
pub mod op;
pub mod page;
pub mod policy;
pub mod profile;
pub mod prompt;
pub mod quota;
pub mod schema;
pub mod seconds;
mod secret;
pub mod settings;
mod standing;
pub mod tag;
pub mod token;
pub mod trace;

pub use access::{Principal, Role};
pub use environment::{Environment, System};
pub use error::{Code, Error, FieldViolation, Reason, Result};
pub use ids::*;
pub use jiff::Timestamp;
pub use secret::Secret;
pub use standing::Standing;
