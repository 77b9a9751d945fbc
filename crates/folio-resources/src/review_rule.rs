//! Review rules of schemas, and the results of their checks.

use serde::{Deserialize, Serialize};

/// Maximum number of checks of a rule.
// proto: ReviewRule.checks "at most {} checks"
pub const CHECKS_MAX: usize = 20;

/// Approves values of new extractions without a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewRule {
    /// Minimum confidence of the model in an approved value, from 0 to 1. A value without a confidence has the confidence 0.
    pub min_confidence: f64,
    /// Equations such as `sum(items.amount) = subtotal`. Values that a failed check names are not approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
}

/// The result of a check for the original data of an extraction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The text of the check, as in [`ReviewRule::checks`].
    pub check: String,
    pub outcome: CheckOutcome,
}

/// The outcome of a check. `left` and `right` are the values of both sides, rounded to `f64`; the comparison is exact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    Passed {
        left: f64,
        right: f64,
    },
    Failed {
        left: f64,
        right: f64,
    },
    /// The check has no result: a value is missing, is not a number or is too large, or the check divides by zero.
    NotEvaluable {
        reason: String,
    },
}
