//! The index of passages: the port [`PassageIndex`], and its embedded adapter.
//!
//! An index is a cache. The passages and their vectors are in the stores of Folio, and an index that is missing,
//! damaged or of another version is reported as [`IndexState`] and rebuilt by its caller from the stores.
//!
//! | part | content |
//! |---|---|
//! | [`IndexedDocument`], [`Search`] | input, with its bounds |
//! | [`Answer`] | passages, and the parts of the index that were used or not |
//! | `fusion` | reciprocal rank fusion of the lexical and the dense ranking (pure) |
//! | `analysis` | words of texts and searches (pure) |
//! | [`adapter`] | rules that all adapters share |
//! | [`EmbeddedIndex`] | adapter: an index folder for each organization |
//!
//! The crate must not know stores, jobs, models or the chunker.

pub mod adapter;
mod analysis;
mod answer;
mod embedded;
mod fusion;
mod passage;
mod port;
mod search;

pub use analysis::highlights;
pub use answer::{Answer, Gap, Hit, IndexState, ListedDocument, PartScore, PartUse, Statistics, Written};
pub use embedded::{EmbeddedIndex, EmbeddedOptions, SpaceCheck};
pub use fusion::{CANDIDATES_MIN, RRF_K, Ranked, fuse};
pub use passage::{Embedding, IndexedDocument, Passage, UPSERT_BYTES};
pub use port::PassageIndex;
pub use search::{DocumentRule, Filter, Search};
