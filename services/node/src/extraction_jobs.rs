//! The kind of jobs that run a prompt on documents.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemState, JobHeader};
use folio_jobs::{ItemTask, JobKind};
use folio_resources::Prompt;
use folio_tools::ToolResources;
use folio_tools::extraction::{ItemProgress, JOB_KIND, JobInput, agent_run_of_item, check_succeeded, run_job_item};
use folio_tools::item_budgets::{part_of_item, return_part_of_item, return_parts};
use folio_types::{BudgetPart, Result, Role};
use serde_json::Value;

use crate::agent_jobs::AgentRuns;

pub(crate) struct ExtractionJobs {
    pub(crate) resources: ToolResources,
    /// Runs the prompts that the agent runs.
    pub(crate) agent: Arc<AgentRuns>,
}

impl ExtractionJobs {
    /// Gives an item its part of the job's credit budget. None: the job has no budget.
    async fn part_of(&self, task: &ItemTask) -> Result<Option<BudgetPart>> {
        let (job, org) = (&task.job, &task.principal.org);
        if job.budget_part().is_some()
            && let Some(call) = job.read_input::<JobInput>()?.call
        {
            // Before the call succeeded, the job may not have received its part.
            check_succeeded(&self.resources, org, &job.id, &call).await?;
        }
        part_of_item(&self.resources, job, task.run.item).await
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
        let resources = match part.clone() {
            Some(part) => self.resources.clone().paid_from(self.resources.budget(&principal.org, part)),
            None => self.resources.clone(),
        };
        let progress = run_job_item(&resources, principal, run, subject, &job.input, steps.clone(), part.clone()).await;
        let outcome = match progress {
            Ok(ItemProgress::Done(outcome)) => Ok(outcome),
            Ok(ItemProgress::Agent(extraction, input)) => self.agent.run(&task, &extraction, &input).await,
            Err(error) => Err(error),
        };
        return_part_of_item(&self.resources, job, part, outcome, |error| task.is_last_attempt(error)).await
    }

    /// Ends the runs of the agent that the items left open. The part of an ended job, with those of its items, returns to the
    /// budget of the turn that created the job; if the job is the root, those of its items return to it.
    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        self.end_runs(job).await?;
        return_parts(&self.resources, job).await
    }
}
