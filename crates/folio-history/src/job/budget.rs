//! The credit budget of a job, as its input states it.

use folio_types::{BudgetPart, BudgetRoot, ThreadId, TurnId};
use serde::Deserialize;

use super::JobHeader;

/// The members of an input that state a budget. Each kind has some of them.
#[derive(Deserialize)]
struct BudgetInput {
    budget_part: Option<BudgetPart>,
    credit_budget: Option<u64>,
    /// The thread whose first turn is the work of the job.
    thread: Option<ThreadId>,
}

impl JobHeader {
    /// Returns the part of a credit budget that pays for the job. The root is the turn that created the job, else the turn that
    /// is the work of the job, else the job itself. None: the job has no budget.
    pub fn budget_part(&self) -> Option<BudgetPart> {
        let BudgetInput { budget_part, credit_budget, thread } = BudgetInput::deserialize(&self.input).ok()?;
        let whole = |credits| {
            let root = match thread {
                Some(thread) => BudgetRoot::Turn(TurnId::new(thread, 1)),
                None => BudgetRoot::Job(self.id.clone()),
            };
            BudgetPart::whole(root, credits)
        };
        budget_part.or_else(|| credit_budget.map(whole))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_types::{JobId, OrgId, Principal, Role, Timestamp, UserId};
    use serde_json::{Value, json};

    use super::super::NewJob;
    use super::*;

    fn budget_part(input: Value) -> Option<BudgetPart> {
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: "test".to_owned(),
            input,
            items: vec!["a".to_owned()],
            running_max: Duration::from_secs(60),
            at: Timestamp::UNIX_EPOCH,
        };
        new.header().unwrap().budget_part()
    }

    #[test]
    fn the_budget_of_a_job_is_that_of_its_creator_or_of_its_turn_or_its_own() {
        let thread = ThreadId::derive(&["t"]);
        let turn = |number| BudgetRoot::Turn(TurnId::new(thread.clone(), number));
        let of_creator = BudgetPart::whole(turn(3), 90).child(JobId::derive(&["j"]));
        let own = BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["j"])), 7);
        for (input, expected) in [
            (json!({}), None),
            (json!({ "thread": thread }), None),
            (json!(["an input of another kind"]), None),
            (json!({ "credit_budget": 7 }), Some(own)),
            (json!({ "credit_budget": 7, "thread": thread }), Some(BudgetPart::whole(turn(1), 7))),
            (json!({ "budget_part": of_creator }), Some(of_creator.clone())),
        ] {
            assert_eq!(budget_part(input.clone()), expected, "{input}");
        }
    }
}
