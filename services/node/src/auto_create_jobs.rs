//! The kind of jobs that make a proposal for an uploaded document.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{AUTO_CREATE_KIND, AutoCreateInput, ItemState, JobHeader};
use folio_jobs::{ItemTask, JobKind};
use folio_resources::ProposalState;
use folio_tools::ToolResources;
use folio_tools::auto_create::{
    AutoCreateRun, AutoCreateStart, Options, discard_run, end_auto_create, open_run, propose_similar, start_auto_create,
};
use folio_types::{BudgetPart, BudgetRoot, DocumentId, Error, Principal, Result, Role};
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::agent_jobs::{AgentRuns, failure};

pub(crate) struct AutoCreateJobs {
    pub(crate) resources: ToolResources,
    pub(crate) options: Options,
    /// Drives the turns of the runs.
    pub(crate) runs: Arc<AgentRuns>,
}

#[async_trait]
impl JobKind for AutoCreateJobs {
    fn name(&self) -> &'static str {
        AUTO_CREATE_KIND
    }

    fn role_min(&self) -> Role {
        Role::Member
    }

    async fn run_item(&self, task: ItemTask) -> Result<Value> {
        let span = tracing::info_span!(
            "auto_create",
            otel.name = "make proposal",
            otel.status_code = Empty,
            "folio.proposal.state" = Empty,
            "error.type" = Empty,
        );
        let result = self.attempt(task).instrument(span.clone()).await;
        match &result {
            Ok(outcome) => {
                if let Some(state) = outcome.get("state").and_then(Value::as_str) {
                    span.record("folio.proposal.state", state);
                }
            }
            Err(error) => {
                span.record("error.type", error.reason.as_str());
                span.record("otel.status_code", "ERROR");
            }
        }
        result
    }

    async fn end_job(&self, job: &JobHeader) -> Result<()> {
        let (resources, options, principal) = (&self.resources, &self.options, &job.principal);
        let input: AutoCreateInput = job.read_input()?;
        for item in &job.items {
            let document: DocumentId = item.id.parse()?;
            let Some(run) = open_run(resources, principal, &document, &input).await? else { continue };
            self.runs.cancel(principal, &run.thread).await?;
            // The last attempt of a done item has found a later text, or no document.
            if item.state == ItemState::Done {
                discard_run(resources, options, principal, &run).await?;
            } else {
                end_auto_create(resources, options, principal, &run, &failure(job, item)).await?;
            }
        }
        Ok(())
    }
}

impl AutoCreateJobs {
    /// Returns the resources of a run without the agent, which the smaller one of the budgets of the upload and of the setting pays. A
    /// run of the agent is a turn, of which the message and the profile have these budgets.
    fn resources_of(&self, job: &JobHeader, run_budget: Option<u64>) -> ToolResources {
        let resources = self.resources.clone();
        let smaller = [run_budget, self.options.credit_budget].into_iter().flatten().min();
        let Some(credits) = smaller else { return resources };
        let budget = resources.budget(job.org(), BudgetPart::whole(BudgetRoot::Job(job.id.clone()), credits));
        resources.paid_from(budget)
    }

    /// Runs an attempt of an item, and returns the outcome of the item.
    async fn attempt(&self, task: ItemTask) -> Result<Value> {
        let (resources, principal) = (&self.resources, &task.principal);
        let document: DocumentId = task.subject()?.parse()?;
        let input: AutoCreateInput = task.job.read_input()?;
        let options = &self.options;
        let subject = (&task.job.id, &document);
        let (run, result) = match start_auto_create(resources, options, principal, subject, &input).await? {
            AutoCreateStart::Done(outcome) => return Ok(outcome),
            AutoCreateStart::Similar(run, similar) => {
                let item = (&task.run, task.steps.clone());
                let resources = self.resources_of(&task.job, input.run_budget);
                let proposed = propose_similar(&resources, principal, item, &run, *similar).await;
                (run, proposed)
            }
            AutoCreateStart::Run(run) => {
                let ended = self.runs.drive(principal, run.message(input.run_budget)?).await;
                if ended.as_ref().is_err_and(|error| task.is_last_attempt(error)) {
                    self.runs.cancel(principal, &run.thread).await?;
                }
                let ended = match ended {
                    Ok(error) => self.end(principal, &run, &error).await,
                    Err(error) => Err(error),
                };
                (run, ended)
            }
        };
        if let Err(error) = &result
            && task.is_last_attempt(error)
        {
            // The outcome is a failed proposal, or the last extraction before the error.
            return self.end(principal, &run, error).await;
        }
        result
    }

    /// Stores the proposal of a run, and records the error of a run that failed in the span. Returns the outcome of the item.
    async fn end(&self, principal: &Principal, run: &AutoCreateRun, error: &Error) -> Result<Value> {
        let outcome = end_auto_create(&self.resources, &self.options, principal, run, &error.message).await?;
        if outcome.get("state").and_then(Value::as_str) == Some(ProposalState::Failed.as_str()) {
            Span::current().record("error.type", error.reason.as_str());
        }
        Ok(outcome)
    }
}
