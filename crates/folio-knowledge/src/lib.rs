//! The passages of documents: how they are made, stored and kept findable.
//!
//! | part | task |
//! |---|---|
//! | [`Knowledge`] | the handle that everything in a process shares: stores, index, models |
//! | [`IndexRetriever`] | searches over the index, whose hits are confirmed by the stores |
//! | [`ask()`] | an answer of a model with citations that occur in the passages |
//!
//! Stores contain the passages and their vectors. The index ([`folio_index::PassageIndex`]) is a cache: whatever it lacks is added
//! from the stores.

mod ask;
mod knowledge;
mod search;

pub use ask::{ANSWER_PASSAGES_DEFAULT, ANSWER_PASSAGES_MAX, ASK_OPERATION, Answer, AnswerCitation, Question, ask};
pub use knowledge::Knowledge;
pub use search::IndexRetriever;
