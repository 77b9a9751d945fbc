//! Contracts of storage: one trait for each kind of stored data, and the values and page tokens that adapters share.
//!
//! The traits speak in domain operations that carry an op key and hide tables and transactions. Every method takes the
//! organization first, and every key that a request can reach begins with it. An error of an adapter is a
//! [`folio_types::Error`]; `STORE_UNAVAILABLE` from a write means that its outcome is unknown.
//!
//! [`Stores`] is the source of truth; [`SharedStores`] contains data that the nodes share for speed and that may be
//! lost.
//!
//! The adapters are crates of their own (`folio-storage-embedded`, `folio-storage-cql`, `folio-storage-redis`,
//! `folio-storage-memory`, `folio-blobs`). Each runs the conformance suites of `folio-storage-conformance`.

mod content_size;
mod encoded_write;
#[cfg(test)]
mod golden;
pub mod page_token;
pub mod spans;
mod sweep;
mod traits;
pub mod value;

pub use content_size::counted_journal_bytes;
pub use encoded_write::EncodedThreadWrite;
pub use sweep::{ListSweep, UnreadableRecords};
pub use traits::*;
