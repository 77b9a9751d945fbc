//! The index of passages on a Qdrant server: an adapter of [`folio_index::PassageIndex`] for clusters.
//!
//! All organizations share one collection. The organization is the first condition of every filter, and a part of every
//! id of a point. A point is one of these:
//!
//! | kind | content |
//! |---|---|
//! | organization | the state of an index, and the version of its format |
//! | document | the live generation of a document, and the writes that may have points |
//! | passage | words and vectors of a passage, and the write that stored it |
//!
//! A document is replaced in these steps. Each may be repeated, and a crash between two of them leaves the former
//! generation live.
//!
//! | step | condition | effect |
//! |---|---|---|
//! | 1. claim | the document point is unchanged since it was read | records the id of the write |
//! | 2. passages | | adds the points of the new generation, which no search returns yet |
//! | 3. switch | the document point is that of the claim | makes the write live |
//! | 4. clean-up | | removes the points of all former writes |
//!
//! A search drops passages of writes that are not live, and repeats its queries without them. The clients of Qdrant use
//! ring for TLS, so the crate generates its own from the proto files.

mod client;
mod collection;
mod filter;
mod index;
mod manifest;
mod options;
mod query;
mod sparse;
mod wire;
mod write;

pub use index::QdrantIndex;
pub use options::QdrantOptions;
