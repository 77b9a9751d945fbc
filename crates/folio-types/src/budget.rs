//! Credit budgets of turns and jobs: the references to them, and their bounds.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ids::{JobId, TurnId};

/// Maximum credits of a budget.
// proto: AskRequest.credit_budget "1 to {} credits"
// proto: ChatRequest.credit_budget "1 to {} credits"
// proto: CorrectExtractionRequest.credit_budget "1 to {} credits"
// proto: DocumentDescription.credit_budget "1 to {} credits"
// proto: RetryJobRequest.credit_budget "1 to {} credits"
// proto: RunExtractionRequest.credit_budget "1 to {} credits"
// proto: RunExtractionsRequest.credit_budget "1 to {} credits"
// proto: StartExtractionRequest.credit_budget "1 to {} credits"
// proto: StartIngestionRequest.credit_budget "1 to {} credits"
// proto: FillStackRequest.credit_budget "1 to {} credits"
// proto: StackAutoFill.credit_budget "1 to {} credits"
pub const CREDIT_BUDGET_MAX: u64 = 1_000_000_000_000;

/// Separates the names in the path of a part. No name of a child contains it.
pub const PATH_SEPARATOR: char = '/';

/// The turn or the job that has a credit budget, in whose partition the row of the budget is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetRoot {
    Turn(TurnId),
    Job(JobId),
}

/// A part of a credit budget, from which the model calls of a turn, a job or an item are paid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BudgetPart {
    pub root: BudgetRoot,
    /// Credits of the whole budget.
    pub credits: u64,
    /// The names of the children from the root to the part, separated by [`PATH_SEPARATOR`]. Empty: the root itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
}

impl BudgetPart {
    /// Returns the whole budget of a root.
    pub fn whole(root: BudgetRoot, credits: u64) -> Self {
        Self { root, credits, path: String::new() }
    }

    /// Returns the part of a child. `name`: the id of a job, or the number of an item.
    #[must_use]
    pub fn child(&self, name: impl Display) -> Self {
        let Self { root, credits, path } = self;
        let path = match path.as_str() {
            "" => name.to_string(),
            path => format!("{path}{PATH_SEPARATOR}{name}"),
        };
        Self { root: root.clone(), credits: *credits, path }
    }
}

/// The use of a budget or of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    pub credits: u64,
    /// Credits of ended calls, and the maximum prices of calls in flight, including those of all children.
    pub used: u64,
    /// Credits that are neither used nor in the part of a child.
    pub rest: u64,
}

impl BudgetUse {
    /// Returns the use of a budget from which no call was paid.
    pub fn unused(credits: u64) -> Self {
        Self { credits, used: 0, rest: credits }
    }
}

/// Checks the credit budget of a request. None: no budget.
///
/// # Errors
/// `INVALID_FIELD` unless the budget is from 1 to [`CREDIT_BUDGET_MAX`].
pub fn check_credit_budget(credits: Option<u64>) -> Result<Option<u64>> {
    match credits {
        Some(credits) if credits == 0 || credits > CREDIT_BUDGET_MAX => {
            let problem = format!("must be from 1 to {CREDIT_BUDGET_MAX} credits");
            Err(Error::invalid_field("credit_budget", problem))
        }
        credits => Ok(credits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ThreadId;

    #[test]
    fn the_path_of_a_part_has_the_names_from_the_root() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 2);
        let job = JobId::derive(&["j"]);
        let whole = BudgetPart::whole(BudgetRoot::Turn(turn), 7);
        let item = whole.child(&job).child(3);
        assert_eq!((item.path.as_str(), item.credits), (format!("{job}/3").as_str(), 7));
        assert!(!job.to_string().contains(PATH_SEPARATOR));
        for part in [whole, item] {
            let stored = serde_json::to_value(&part).unwrap();
            assert_eq!(serde_json::from_value::<BudgetPart>(stored).unwrap(), part);
        }
    }

    #[test]
    fn a_budget_has_at_least_one_credit_and_a_maximum() {
        for credits in [None, Some(1), Some(CREDIT_BUDGET_MAX)] {
            assert_eq!(check_credit_budget(credits).unwrap(), credits);
        }
        for credits in [0, CREDIT_BUDGET_MAX + 1] {
            let error = check_credit_budget(Some(credits)).unwrap_err();
            assert_eq!(error.violations[0].field, "credit_budget", "{credits}");
        }
    }
}
