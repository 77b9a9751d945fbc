//! Settings of extractions.

use folio_resources::EXAMPLES_MAX;
use folio_types::settings::{InvalidSettings, Problems};

folio_types::settings! {
    /// The settings section `extraction`.
    pub struct Options {
        /// Maximum number of pages of a document. An extraction from a longer document is refused.
        // proto: ExtractionService.RunExtraction "more than {} pages"
        pub pages_max: u32 = 500,
        /// Maximum number of windows of an extraction. An extraction that needs more is refused.
        // proto: ExtractionService.RunExtraction "more than {} windows"
        pub windows_max: u32 = 64,
        /// Maximum number of windows of an extraction that runs within its request. An extraction with more runs as a job.
        // proto: ExtractionService.RunExtraction "with more than {} windows"
        pub request_windows_max: u32 = 8,
        /// Maximum price of an extraction in credits, with the correction of every answer. An extraction that may cost more
        /// is refused.
        pub credits_max: u64 = 5_000,
        /// Maximum number of verified extractions of other documents that a model receives as examples. 0: none.
        pub examples: u32 = 0,
        /// Maximum number of characters of an example: the text of its document and its data. Longer ones are not used.
        pub example_chars: u32 = 4_000,
        /// Minimum similarity of the first pages of the document and of an example, from 0 to 1.
        pub example_similarity: f64 = 0.35,
    }
}

impl Options {
    /// # Errors
    /// Lists every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("extraction");
        problems.number("pages_max", self.pages_max, 1, 100_000);
        problems.number("windows_max", self.windows_max, 1, 64);
        problems.number("request_windows_max", self.request_windows_max, 1, self.windows_max);
        problems.number("credits_max", self.credits_max, 1, 1_000_000_000_000);
        problems.number("examples", self.examples, 0, u32::try_from(EXAMPLES_MAX).unwrap_or(u32::MAX));
        problems.number("example_chars", self.example_chars, 100, 50_000);
        problems.number("example_similarity", self.example_similarity, 0.0, 1.0);
        problems.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_each_bound_is_checked() {
        assert_eq!(Options::default().check(), Ok(()));
        let options = Options {
            pages_max: 0,
            windows_max: 65,
            request_windows_max: 66,
            credits_max: 0,
            examples: 9,
            example_chars: 99,
            example_similarity: f64::NAN,
        };
        let problems = options.check().unwrap_err().problems;
        let names = [
            "pages_max",
            "windows_max",
            "request_windows_max",
            "credits_max",
            "examples",
            "example_chars",
            "example_similarity",
        ];
        let found: Vec<_> = problems.iter().filter_map(|problem| problem.split([':', '.']).nth(1)).collect();
        assert_eq!(found, names);
    }
}
