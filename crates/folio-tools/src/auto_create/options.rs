//! Settings of automatic creation.

use std::time::Duration;

use folio_types::budget::CREDIT_BUDGET_MAX;
use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};

folio_types::settings! {
    /// The settings section `auto_create`.
    pub struct Options {
        /// Maximum time that the turn of a run takes, without the time that it waits for decisions.
        pub running_time: Duration as "running_time_seconds" = Duration::from_secs(120),
        /// If true, the schemas, prompts and tags that a failed run created are kept.
        pub keep_failed: bool = false,
        /// Minimum similarity of the first pages of the document and of one with an accepted proposal, from 0 to 1, at which the
        /// accepted prompt is proposed instead of a new one.
        pub similarity: f64 = 0.6,
        /// Credits that the model calls of a run may cost. None: no budget.
        pub credit_budget: Option<u64> = None,
    }
}

impl Options {
    /// # Errors
    /// Lists every invalid setting with its bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("auto_create");
        problems.seconds("running_time_seconds", self.running_time, Duration::from_secs(1), DAY);
        problems.number("similarity", self.similarity, 0.0, 1.0);
        if let Some(credits) = self.credit_budget {
            problems.number("credit_budget", credits, 1, CREDIT_BUDGET_MAX);
        }
        problems.into_result()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_each_bound_is_checked() {
        assert_eq!(Options::default().check(), Ok(()));
        for running_time in [Duration::ZERO, DAY + Duration::from_secs(1)] {
            let options = Options { running_time, ..Options::default() };
            let problems = options.check().unwrap_err().problems;
            assert!(problems[0].starts_with("auto_create.running_time_seconds"), "{problems:?}");
        }
        for similarity in [-0.1, 1.1, f64::NAN] {
            let options = Options { similarity, ..Options::default() };
            assert_eq!(options.check().unwrap_err().problems.len(), 1);
        }
        for (credits, is_valid) in [(0, false), (1, true), (CREDIT_BUDGET_MAX, true), (CREDIT_BUDGET_MAX + 1, false)] {
            let options = Options { credit_budget: Some(credits), ..Options::default() };
            assert_eq!(options.check().is_ok(), is_valid, "{credits}");
        }
    }
}
