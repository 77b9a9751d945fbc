//! Rules that all adapters share, so that an organization gets equal answers from each of them.

pub use crate::analysis::{search_words, terms};
pub use crate::fusion::{CANDIDATES_MIN, PassageKey, Ranking, join, skipped, sort};
pub use crate::passage::{DOCUMENTS_MAX, at_most, metadata_text, validate_upsert};

/// Weight of a word in the context of a passage, relative to its text.
pub const CONTEXT_WEIGHT: f32 = 0.4;
/// Maximum languages of an index whose stems a search looks for.
pub const LANGUAGES_MAX: usize = 32;
/// Maximum documents of a listing.
pub const LISTED_MAX: usize = 10_000;
