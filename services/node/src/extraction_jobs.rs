//! The kind of jobs that run a prompt on documents.

use std::sync::Arc;

use async_trait::async_trait;
use folio_jobs::{ItemTask, JobKind};
use folio_metering::{BudgetMeter, BudgetScope};
use folio_storage::BudgetRoot;
use folio_tools::ToolResources;
use folio_tools::extraction::{JOB_KIND, JobInput, run_job_item};
use folio_types::{Error, Result, Role};
use serde_json::Value;

pub(crate) struct ExtractionJobs(pub(crate) ToolResources);

impl ExtractionJobs {
    /// Gives an item its part of the job's credit budget: the rest divided by the number of open items. An item whose earlier
    /// attempt was interrupted keeps its part. None: the job has no budget.
    async fn part_of(&self, task: &ItemTask) -> Result<Option<BudgetScope>> {
        let job = &task.run.job;
        let malformed = |error| Error::internal(format!("the input of the job {job} is malformed: {error}"));
        let input: JobInput = serde_json::from_value(task.job.input.clone()).map_err(malformed)?;
        let Some(credits) = input.credit_budget else { return Ok(None) };
        let (budgets, org) = (self.0.stores.budgets(), task.principal.org.clone());
        let budget = BudgetScope::new(budgets, org, BudgetRoot::job(job), credits);
        let shares = u64::try_from(task.job.progress().open()).unwrap_or(u64::MAX);
        budget.grant(task.run.item.to_string(), shares).await.map(Some)
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
        let subject = task.subject().ok_or_else(|| Error::internal("an item of a job has no subject"))?;
        let part = self.part_of(&task).await?;
        let mut resources = self.0.clone();
        if let Some(part) = &part {
            resources.meter = Arc::new(BudgetMeter::new(resources.meter, part.clone()));
        }
        let ItemTask { job, principal, run, steps, .. } = &task;
        let outcome = run_job_item(&resources, principal, run, subject, &job.input, steps.clone()).await;
        let returned = match part {
            Some(part) => part.take_back().await,
            None => Ok(()),
        };
        // If the part was not returned, the next attempt finds the extraction and returns the part.
        outcome.and_then(|outcome| returned.map(|()| outcome))
    }
}
