//! Credit budgets of turns and jobs, as rows of a [`RowStore`]. Each thread and each job has a partition of its own, with one
//! row for each turn that has a budget, or for the job.

use std::sync::Arc;

use folio_credit::Budget;
use folio_types::{BudgetPart, BudgetRoot, BudgetUse, Error, OrgId, Result};

use super::{ConditionalRow, RowStore};
use crate::value::{Stored as _, decode, encode};

/// Maximum attempts of a change that meets other changes.
const ATTEMPTS: usize = 32;

fn group(id: &str) -> String {
    format!("{}/{id}", Budget::KIND)
}

/// Returns the group and the key of the row of a root.
fn row_of(root: &BudgetRoot) -> (String, String) {
    match root {
        BudgetRoot::Turn(turn) => (group(turn.thread.as_str()), turn.number.to_string()),
        BudgetRoot::Job(job) => (group(job.as_str()), Budget::KIND.to_owned()),
    }
}

fn number_of(root: &BudgetRoot) -> u32 {
    match root {
        BudgetRoot::Turn(turn) => turn.number,
        BudgetRoot::Job(_) => 1,
    }
}

/// The budgets of organizations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BudgetStore(Arc<dyn RowStore>);

impl BudgetStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Changes the budget of which a part pays, under the condition that the budget is unchanged since it was read. `change` is
    /// repeated if another process changed the budget meanwhile. A change without effect stores nothing, so that a late
    /// settlement does not create the budget of a deleted root.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is stored; `VERSION_CONFLICT` after too many concurrent changes. After
    /// `STORE_UNAVAILABLE` the outcome is unknown.
    pub async fn change(
        &self,
        org: &OrgId,
        part: &BudgetPart,
        change: impl Fn(&mut Budget) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let (group, key) = row_of(&part.root);
        for _ in 0..ATTEMPTS {
            let stored = self.0.get(org, &group, std::slice::from_ref(&key)).await?.pop().flatten();
            let read = stored.as_deref().map(decode::<Budget>).transpose()?;
            let before = read.unwrap_or_else(|| Budget::new(number_of(&part.root), part.credits));
            let mut budget = before.clone();
            change(&mut budget)?;
            if budget == before {
                return Ok(());
            }
            let (group, key, after) = (group.clone(), key.clone(), encode(&budget)?);
            let write = ConditionalRow { group, key, before: stored, after, guard: None };
            if self.0.compare_and_set(org, write).await? {
                return Ok(());
            }
        }
        let message = "too many concurrent changes of a credit budget; retry";
        Err(Error::version_conflict(message))
    }

    /// Returns the budget of a root. None: no call was paid from it.
    pub async fn read(&self, org: &OrgId, root: &BudgetRoot) -> Result<Option<Budget>> {
        let (group, key) = row_of(root);
        let stored = self.0.get(org, &group, &[key]).await?.pop().flatten();
        stored.as_deref().map(decode).transpose()
    }

    /// Returns the use of a part. None: the child of a root has no part, because it has not received it, or has returned it.
    pub async fn use_of(&self, org: &OrgId, part: &BudgetPart) -> Result<Option<BudgetUse>> {
        Ok(match self.read(org, &part.root).await? {
            Some(budget) => budget.use_of(&part.path),
            None => part.path.is_empty().then(|| BudgetUse::unused(part.credits)),
        })
    }

    /// Removes the budgets of a deleted thread or job. Idempotent. `id`: the id of the thread or job.
    pub async fn remove(&self, org: &OrgId, id: &str) -> Result<()> {
        self.0.remove_group(org, &group(id)).await
    }
}
