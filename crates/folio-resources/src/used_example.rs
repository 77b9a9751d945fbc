//! Verified extractions that a model received as examples of the expected data.

use folio_types::ExtractionId;
use serde::{Deserialize, Serialize};

/// Maximum number of examples of an extraction.
// proto: Extraction.examples "at most {}."
pub const EXAMPLES_MAX: usize = 8;

/// A verified extraction that the model received as an example, with the comparison that selected it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsedExample {
    pub extraction: ExtractionId,
    /// Similarity of the first pages of both documents, from 0 to 1.
    pub similarity: f64,
    /// Minimum similarity of an example when the extraction ran, from 0 to 1.
    pub threshold: f64,
}
