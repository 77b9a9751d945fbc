//! The kinds of jobs that fill the rows of stacks.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{ItemState, JobHeader, STACK_FILL_KIND, STACK_PLAN_KIND, StackFillInput, StackPlanInput};
use folio_jobs::{ItemTask, JobKind};
use folio_tools::ToolResources;
use folio_tools::item_budgets::{part_of_item, return_part_of_item, return_parts};
use folio_tools::stack::{FillRun, FillStart, check_filled, plan_fill, start_fill};
use folio_types::{DocumentId, Error, Reason, Result, Role, StackId};
use serde_json::Value;

use crate::agent_jobs::AgentRuns;

/// Jobs whose items fill one row each.
pub(crate) struct StackFillJobs {
    pub(crate) resources: ToolResources,
    /// Drives the turns of the items.
    pub(crate) runs: Arc<AgentRuns>,
}

#[async_trait]
impl JobKind for StackFillJobs {
    fn name(&self) -> &'static str {
        STACK_FILL_KIND
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let part = part_of_item(&self.resources, &task.job, task.run.item).await?;
        let (document, input): (DocumentId, StackFillInput) = (task.subject()?.parse()?, task.job.read_input()?);
        let started = start_fill(&self.resources, &task.principal, &task.run, &document, &input, part.clone()).await;
        let outcome = match started {
            Ok(FillStart::Done(outcome)) => Ok(outcome),
            Ok(FillStart::Run(run)) => self.run(&task, &run).await,
            Err(error) => Err(error),
        };
        return_part_of_item(&self.resources, &task.job, part, outcome, |error| task.is_last_attempt(error)).await
    }

    /// Cancels the turns that the items left open. The parts of the items return to the budget of the job.
    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let input: StackFillInput = job.read_input()?;
        for item in job.items.iter().filter(|item| item.attempt > 0 && item.state != ItemState::Done) {
            let document: DocumentId = item.id.parse()?;
            let run = FillRun::of(&job.principal, &job.id, &input.stack, &document);
            self.runs.cancel(&job.principal, &run.thread).await?;
        }
        return_parts(&self.resources, job).await
    }
}

impl StackFillJobs {
    /// Drives the turn of an item to its end, and returns the outcome of the item.
    async fn run(&self, task: &ItemTask, run: &FillRun) -> Result<Value> {
        let ended = match self.runs.drive(&task.principal, run.message()?).await {
            Ok(ended) => match ended.reason {
                Reason::NoExtraction => Error::precondition(Reason::NoExtraction, "the agent ended its turn"),
                Reason::BudgetExhausted => Error::precondition(Reason::BudgetExhausted, ended.message),
                _ => Error::precondition(Reason::NoExtraction, ended.message),
            },
            Err(error) if task.is_last_attempt(&error) => {
                self.runs.cancel(&task.principal, &run.thread).await?;
                error
            }
            Err(error) => return Err(error),
        };
        check_filled(&self.resources.stores, &task.principal.org, run, ended).await
    }
}

/// Jobs that create a job of [`StackFillJobs`] after a change of a stack.
pub(crate) struct StackPlanJobs {
    pub(crate) resources: ToolResources,
}

#[async_trait]
impl JobKind for StackPlanJobs {
    fn name(&self) -> &'static str {
        STACK_PLAN_KIND
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let (stack, input): (StackId, StackPlanInput) = (task.subject()?.parse()?, task.job.read_input()?);
        plan_fill(&self.resources, &task.principal, &stack, &input).await
    }
}
