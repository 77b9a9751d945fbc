//! The passages of documents: how they are made, stored and kept findable.
//!
//! | part | task |
//! |---|---|
//! | [`Knowledge`] | the handle that everything in a process shares: stores, index, models |
//!
//! Stores contain the passages and their vectors. The index ([`folio_index::PassageIndex`]) is a cache: whatever it lacks is added
//! from the stores.

mod knowledge;

pub use knowledge::Knowledge;
