//! Credit budgets of turns and jobs, as rows of a [`RowStore`]. Each thread and each job has a partition of its own.

use std::sync::Arc;

use folio_credit::Budget;
use folio_types::{Code, Error, JobId, OrgId, Reason, Result, TurnId};

use super::{ConditionalRow, RowStore};
use crate::value::{Stored as _, decode, encode};

/// Maximum attempts of a change that meets other changes.
const ATTEMPTS: usize = 32;

/// The turn or the job that has a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRoot {
    /// Id of the thread or of the job.
    id: String,
    number: u32,
}

impl BudgetRoot {
    /// The budget of a turn is replaced by that of the next turn of the thread.
    pub fn turn(turn: &TurnId) -> Self {
        Self { id: turn.thread.to_string(), number: turn.number }
    }

    pub fn job(job: &JobId) -> Self {
        Self { id: job.to_string(), number: 1 }
    }
}

fn group(id: &str) -> String {
    format!("{}/{id}", Budget::KIND)
}

/// The budgets of organizations. Cheap to clone.
#[derive(Clone)]
pub struct BudgetStore(Arc<dyn RowStore>);

impl std::fmt::Debug for BudgetStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BudgetStore")
    }
}

impl BudgetStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Changes a budget under the condition that it is unchanged since it was read. `credits`: the budget of a root that
    /// has none. `change` is repeated if another process changed the budget meanwhile. A change without effect stores
    /// nothing, so that a late settlement does not create the budget of a deleted root.
    ///
    /// # Errors
    /// Those of `change`, after which nothing is stored; `VERSION_CONFLICT` if a later turn replaced the budget, or after
    /// too many concurrent changes. After `STORE_UNAVAILABLE` the outcome is unknown.
    pub async fn change(
        &self,
        org: &OrgId,
        root: &BudgetRoot,
        credits: u64,
        change: impl Fn(&mut Budget) -> Result<()> + Send + Sync,
    ) -> Result<()> {
        let (group, key) = (group(&root.id), Budget::KIND.to_owned());
        for _ in 0..ATTEMPTS {
            let stored = self.0.get(org, &group, std::slice::from_ref(&key)).await?.pop().flatten();
            let read = stored.as_deref().map(decode::<Budget>).transpose()?;
            let before = Budget::open(read, root.number, credits)?;
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
        Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
    }

    /// Returns the budget of a thread's newest turn with a budget, or of a job.
    pub async fn read(&self, org: &OrgId, root: &BudgetRoot) -> Result<Option<Budget>> {
        let keys = [Budget::KIND.to_owned()];
        let stored = self.0.get(org, &group(&root.id), &keys).await?.pop().flatten();
        stored.as_deref().map(decode).transpose()
    }

    /// Removes the budgets of a deleted thread or job. Idempotent. `id`: the id of the thread or job.
    pub async fn remove(&self, org: &OrgId, id: &str) -> Result<()> {
        self.0.remove(org, &group(id), Budget::KIND).await
    }
}
