//! The kind of jobs that run a prompt on documents.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemState, JobHeader};
use folio_jobs::{ItemTask, JobKind};
use folio_metering::{BudgetMeter, BudgetScope};
use folio_storage::BudgetRoot;
use folio_tools::ToolResources;
use folio_tools::extraction::{ItemProgress, JOB_KIND, JobInput, run_job_item};
use folio_types::{Result, Role};
use serde_json::Value;

use crate::agent_jobs::AgentRuns;

pub(crate) struct ExtractionJobs {
    pub(crate) resources: ToolResources,
    /// Runs the prompts that the agent runs.
    pub(crate) agent: Arc<AgentRuns>,
}

impl ExtractionJobs {
    /// Gives an item its part of the job's credit budget: the rest divided by the number of open items. An item whose earlier
    /// attempt was interrupted keeps its part. A failed item returns the part that it still has. None: the job has no
    /// budget.
    async fn part_of(&self, task: &ItemTask) -> Result<Option<BudgetScope>> {
        let job = &task.run.job;
        let Some(credits) = task.job.read_input::<JobInput>()?.credit_budget else { return Ok(None) };
        let (budgets, org) = (self.resources.stores.budgets(), task.principal.org.clone());
        let budget = BudgetScope::new(budgets, org, BudgetRoot::job(job), credits);
        budget.take_back_of(&failed_items(&task.job)).await?;
        let shares = u64::try_from(task.job.progress().open()).unwrap_or(u64::MAX);
        budget.grant(task.run.item.to_string(), shares).await.map(Some)
    }
}

/// Returns the numbers of the failed items of the current page. Such an item has its part if its node died in the last attempt, or if the part
/// could not be returned.
fn failed_items(job: &JobHeader) -> Vec<String> {
    let numbered = job.items.iter().zip(job.items_before().saturating_add(1)..);
    let failed = numbered.filter(|(item, _)| matches!(item.state, ItemState::Failed(_)));
    failed.map(|(_, number)| number.to_string()).collect()
}

#[async_trait]
impl JobKind for ExtractionJobs {
    fn name(&self) -> &'static str {
        JOB_KIND
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let subject = task.subject()?;
        let part = self.part_of(&task).await?;
        let mut resources = self.resources.clone();
        if let Some(part) = &part {
            resources.meter = Arc::new(BudgetMeter::new(resources.meter, part.clone()));
        }
        let ItemTask { job, principal, run, steps, .. } = &task;
        let progress = run_job_item(&resources, principal, run, subject, &job.input, steps.clone()).await;
        let outcome = match progress {
            Ok(ItemProgress::Done(outcome)) => Ok(outcome),
            Ok(ItemProgress::Agent(extraction, input)) => self.agent.run(&task, &extraction, &input).await,
            Err(error) => Err(error),
        };
        let returned = match part {
            Some(part) => part.take_back().await,
            None => Ok(()),
        };
        // If the part was not returned, the next attempt finds the extraction and returns the part.
        outcome.and_then(|outcome| returned.map(|()| outcome))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{JobPages, NewJob};
    use folio_types::{Error, JobId, OrgId, Principal, Reason, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    #[test]
    fn failed_items_are_numbered_like_their_runs() {
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: JOB_KIND.to_owned(),
            input: json!({}),
            items: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            running_max: Duration::from_secs(60),
            at: Timestamp::UNIX_EPOCH,
        };
        let mut job = new.header().unwrap();
        assert_eq!(failed_items(&job), Vec::<String>::new());
        let failed = || ItemState::Failed(Error::unavailable(Reason::NodeLost, "the node died"));
        (job.items[0].state, job.items[1].state) = (failed(), ItemState::Done);
        (job.items[2].state, job.items[3].state) = (ItemState::Running, failed());
        assert_eq!(job.run_of(2).unwrap().item, 3);
        assert_eq!(failed_items(&job), ["1", "4"]);
        job.pages = Some(JobPages { items: 104, current: 1, ..JobPages::default() });
        assert_eq!(job.run_of(2).unwrap().item, 103);
        assert_eq!(failed_items(&job), ["101", "104"], "the items of the second page");
    }
}
