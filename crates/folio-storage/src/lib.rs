//! Storage: one trait per aggregate, and the adapters behind them.
//!
//! The traits speak in domain operations that carry an op key; callers know nothing of tables or transactions. Every
//! method takes the organization first: no key that a request can reach begins with anything else. An error of an
//! adapter is a [`folio_types::Error`]; `STORE_UNAVAILABLE` from a write means that its outcome is unknown.
//!
//! [`Stores`] is the truth; [`SharedStores`] is what the nodes share to be fast, and may be lost.
//!
//! Each trait has one conformance suite (`conformance`) that every adapter runs.

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
#[cfg(test)]
mod golden;
mod guard;
pub mod memory;
pub mod object;
mod page_token;
mod planted;
mod quotas;
pub mod redis;
pub mod scylla;
mod slots;
mod spans;
mod tls;
mod traits;
mod value;

#[cfg(feature = "planted-bugs")]
pub use planted::{Bug, ScriptBug, crash_points_passed};
pub use quotas::KnownQuotas;
pub use slots::{Slot, Slots};
pub use tls::Tls;
pub use traits::*;
