//! The kind of jobs that make a proposal for an uploaded document.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{AUTO_CREATE_KIND, AutoCreateInput};
use folio_jobs::{ItemTask, JobKind};
use folio_tools::ToolResources;
use folio_tools::auto_create::{AutoCreateStart, Options, end_auto_create, start_auto_create};
use folio_types::{DocumentId, Error, Result, Role};
use serde_json::Value;

use crate::agent_jobs::{AgentRuns, is_last_attempt};

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
        let (resources, principal) = (&self.resources, &task.principal);
        let subject = task.subject().ok_or_else(|| Error::internal("an item of a job has no subject"))?;
        let document: DocumentId = subject.parse()?;
        let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", task.job.id));
        let input: AutoCreateInput = serde_json::from_value(task.job.input.clone()).map_err(malformed)?;
        let run = match start_auto_create(resources, principal, &document, &input).await? {
            AutoCreateStart::Run(run) => run,
            AutoCreateStart::Done(outcome) => return Ok(outcome),
        };
        match self.runs.drive(principal, run.message()?).await {
            Ok(reason) => end_auto_create(resources, &self.options, principal, &run, &reason).await,
            Err(error) if is_last_attempt(&task, &error) => {
                self.runs.cancel(principal, &run.turn()).await;
                end_auto_create(resources, &self.options, principal, &run, &error.message).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }
}
