//! The passages of documents: how they are made, stored and kept findable.
//!
//! | part | task |
//! |---|---|
//! | [`Knowledge`] | the handle that everything in a process shares: stores, index, models |
//! | [`resolve_links`] | links between documents, and those whose document is missing |
//! | [`steward`] | abbreviations that a document does not explain |
//!
//! Stores contain the passages and their vectors. The index ([`folio_index::PassageIndex`]) is a cache: whatever it lacks is added
//! from the stores.

mod knowledge;
mod links;
mod steward;

pub use knowledge::Knowledge;
pub use links::{CrossReference, LinkReport, cross_references, resolve_links};
pub use steward::{DICTIONARY_OPERATION, StewardReport, StewardRun, steward, steward_run};
