//! The kind of jobs that run a prompt on documents.

use async_trait::async_trait;
use folio_jobs::{ItemTask, JobKind};
use folio_tools::ToolResources;
use folio_tools::extraction::{JOB_KIND, run_job_item};
use folio_types::{Error, Result, Role};
use serde_json::Value;

pub(crate) struct ExtractionJobs(pub(crate) ToolResources);

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
        run_job_item(&self.0, &task.principal, &task.run, subject, &task.job.input, task.steps.clone()).await
    }
}
