//! The kind of jobs that run a prompt on documents.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemState, JobHeader, JobItem};
use folio_jobs::{ItemTask, JobKind};
use folio_metering::{BudgetMeter, BudgetScope};
use folio_resources::Prompt;
use folio_storage::BudgetRoot;
use folio_tools::ToolResources;
use folio_tools::extraction::{ItemProgress, JOB_KIND, JobInput, agent_run_of_item, run_job_item};
use folio_types::{Result, Role};
use serde_json::Value;

use crate::agent_jobs::AgentRuns;

pub(crate) struct ExtractionJobs {
    pub(crate) resources: ToolResources,
    /// Runs the prompts that the agent runs.
    pub(crate) agent: Arc<AgentRuns>,
}

impl ExtractionJobs {
    /// Gives an item its part of the job's credit budget: the rest divided by the number of open items without a part. An item
    /// whose earlier attempt was interrupted keeps its part. An ended item has its part if its node died in the last attempt, or
    /// if the part could not be returned; it returns the part first. None: the job has no budget.
    async fn part_of(&self, task: &ItemTask) -> Result<Option<BudgetScope>> {
        let job = &task.job;
        let Some(credits) = job.read_input::<JobInput>()?.credit_budget else { return Ok(None) };
        let (budgets, org) = (self.resources.stores.budgets(), task.principal.org.clone());
        let budget = BudgetScope::new(budgets, org, BudgetRoot::job(&job.id), credits);
        let open = u64::try_from(job.progress().open()).unwrap_or(u64::MAX);
        let ended = |child: &str| child.parse::<u32>().is_ok_and(|item| has_ended(job, item));
        budget.grant(task.run.item.to_string(), open, ended).await.map(Some)
    }
}

/// Returns true if an item has ended. All items of the pages before the current one have.
fn has_ended(job: &JobHeader, item: u32) -> bool {
    let found = job.index_of(item).and_then(|index| job.items.get(index));
    item <= job.items_before() || found.is_some_and(JobItem::has_ended)
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

    /// Ends the runs of the agent for items that were attempted and are not done.
    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let numbered = job.items.iter().enumerate().filter_map(|(index, item)| Some((job.number_of(index)?, item)));
        let left: Vec<_> = numbered.filter(|(_, item)| item.attempt > 0 && item.state != ItemState::Done).collect();
        let (stores, org) = (&self.resources.stores, job.org());
        if left.is_empty() {
            return Ok(());
        }
        let prompt = stores.of::<Prompt>().revision(org, &job.read_input::<JobInput>()?.prompt).await?;
        // The agent may have run the revision of a deleted prompt.
        if prompt.is_some_and(|prompt| !prompt.is_run_by_agent) {
            return Ok(());
        }
        for (number, item) in left {
            if let Some((id, thread)) = agent_run_of_item(stores, &job.principal, &job.id, number).await? {
                self.agent.abort(job, item, (&id, &thread)).await?;
            }
        }
        Ok(())
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
    fn ended_items_are_numbered_like_their_runs() {
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
        let ended = |job: &JobHeader, items: [u32; 7]| items.map(|item| has_ended(job, item));
        assert_eq!(ended(&job, [0, 1, 2, 3, 4, 5, 6]), [true, false, false, false, false, false, false]);
        let failed = || ItemState::Failed(Error::unavailable(Reason::NodeLost, "the node died"));
        (job.items[0].state, job.items[1].state) = (failed(), ItemState::Done);
        (job.items[2].state, job.items[3].state) = (ItemState::Running, failed());
        assert_eq!(job.run_of(2).unwrap().item, 3);
        assert_eq!(ended(&job, [0, 1, 2, 3, 4, 5, 6]), [true, true, true, false, true, false, false]);
        job.pages = Some(JobPages { items: 105, current: 1, ..JobPages::default() });
        assert_eq!(job.run_of(2).unwrap().item, 103);
        let found = ended(&job, [1, 100, 101, 102, 103, 104, 105]);
        assert_eq!(found, [true, true, true, true, false, true, false], "the items of the second page");
    }
}
