//! The kind of jobs that run a prompt on documents.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemState, JobHeader, JobItem};
use folio_jobs::{ItemTask, JobKind};
use folio_metering::Share;
use folio_resources::Prompt;
use folio_tools::ToolResources;
use folio_tools::extraction::{ItemProgress, JOB_KIND, JobInput, agent_run_of_item, check_succeeded, run_job_item};
use folio_types::{BudgetPart, Result, Role};
use serde_json::Value;

use crate::agent_jobs::{AgentRuns, is_last_attempt};

pub(crate) struct ExtractionJobs {
    pub(crate) resources: ToolResources,
    /// Runs the prompts that the agent runs.
    pub(crate) agent: Arc<AgentRuns>,
}

impl ExtractionJobs {
    /// Gives an item its part of the job's credit budget: the rest divided by the number of open items without a part. An item
    /// keeps its part until it ends. An ended item has its part if its node died in the last attempt, or if the part could not
    /// be returned; it returns the part first. None: the job has no budget.
    async fn part_of(&self, task: &ItemTask) -> Result<Option<BudgetPart>> {
        let (job, org) = (&task.job, &task.principal.org);
        let Some(part) = job.budget_part().map(|part| part.child(task.run.item)) else { return Ok(None) };
        if let Some(call) = job.read_input::<JobInput>()?.call {
            // Before the call succeeded, the job may not have received its part.
            check_succeeded(&self.resources, org, &job.id, &call).await?;
        }
        let open = u64::try_from(job.progress().open()).unwrap_or(u64::MAX);
        let ended = |child: &str| child.parse::<u32>().is_ok_and(|item| has_ended(job, item));
        self.resources.budget(org, part.clone()).grant(Share::Equal { open }, ended).await?;
        Ok(Some(part))
    }

    /// Ends the runs of the agent for items that were attempted and are not done.
    async fn end_runs(&self, job: &JobHeader) -> Result<()> {
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
        let ItemTask { job, principal, run, steps, .. } = &task;
        let budget = part.clone().map(|part| self.resources.budget(&principal.org, part));
        let resources = match &budget {
            Some(budget) => self.resources.clone().paid_from(budget.clone()),
            None => self.resources.clone(),
        };
        let progress = run_job_item(&resources, principal, run, subject, &job.input, steps.clone(), part).await;
        let outcome = match progress {
            Ok(ItemProgress::Done(outcome)) => Ok(outcome),
            Ok(ItemProgress::Agent(extraction, input)) => self.agent.run(&task, &extraction, &input).await,
            Err(error) => Err(error),
        };
        // The turn of a run that waits or is interrupted continues with the part, also outside of an attempt.
        let is_attempted_again = outcome.as_ref().is_err_and(|error| !is_last_attempt(&task, error));
        let returned = match budget.filter(|_| !is_attempted_again) {
            Some(budget) => budget.take_back().await,
            None => Ok(()),
        };
        // If the part was not returned, the next attempt finds the extraction and returns the part.
        outcome.and_then(|outcome| returned.map(|()| outcome))
    }

    /// Ends the runs of the agent that the items left open. The part of an ended job, with those of its items, returns to the
    /// budget of the turn that created the job; if the job is the root, those of its items return to it.
    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        self.end_runs(job).await?;
        match job.budget_part().filter(|_| job.is_ended()) {
            Some(part) => self.resources.budget(job.org(), part).take_back().await,
            None => Ok(()),
        }
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
