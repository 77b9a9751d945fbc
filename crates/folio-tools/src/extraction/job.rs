//! Jobs that run one prompt on documents. An item is a document, and its effect is one extraction.

use folio_history::job::{EXTRACTION_KIND, ItemRun, KIND, Steps};
use folio_resources::{Extraction, ExtractionChange, Resource as _};
use folio_types::op::{Expected, OpKey, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::{
    CallId, Code, Digest, DocumentId, Error, ExtractionId, JobId, OrgId, Principal, PromptRevId, Reason, Result,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Request, batch_tool, engine};
use crate::tool::ToolResources;

/// The name of the kind of job.
pub const JOB_KIND: &str = EXTRACTION_KIND;

/// The input of a job. The subjects of its items are the ids of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInput {
    pub prompt: PromptRevId,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
    /// Model if the prompt names none: the model of the conversation. None: the default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_model: Option<String>,
    /// The tool call that created the job. The items run only if the op row of the call states that it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Credits that the model calls of all items may cost. The caller of [`run_job_item`] enforces it. None: no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

/// Runs an item: extracts the data of a document and stores them. An attempt finds the extraction of an earlier attempt,
/// and then calls no model; it also finds the answered windows of an earlier attempt. Returns the id of the extraction.
/// `steps` receives the number of answered windows.
///
/// # Errors
/// The errors of [`super::run`]; `VERSION_CONFLICT` if another process closed the write.
pub async fn run_job_item(
    resources: &ToolResources,
    principal: &Principal,
    run: &ItemRun,
    subject: &str,
    input: &Value,
    steps: watch::Sender<Option<Steps>>,
) -> Result<Value> {
    let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", run.job));
    let JobInput { prompt, model, fallback_model, call, credit_budget: _ } =
        JobInput::deserialize(input).map_err(malformed)?;
    let document: DocumentId = subject.parse()?;
    if let Some(call) = &call {
        check_succeeded(resources, &principal.org, &run.job, call).await?;
    }
    let (effect, store) = (run.effect()?, resources.stores.of::<Extraction>());
    let id = ExtractionId::derive(&[principal.org.as_str(), principal.user.as_str(), effect.as_str()]);
    let identity = effect.as_str().to_owned();
    let op = OpKey::Request { user: principal.user.clone(), request: effect };
    let digest = Digest::of_json(&json!({ "job": JOB_KIND, "input": input, "document": document.as_str() }));
    if let Some(row) = resources.stores.ops.row(&principal.org, &Extraction::target(&id), &op).await? {
        return outcome(&id, &row, &digest);
    }
    let request = Request {
        principal: principal.clone(),
        document,
        prompt,
        model,
        fallback_model,
        key: run.ledger_key(1),
        run: Some(identity),
        steps: Some(steps),
    };
    let extracted = engine::run(resources, request).await?;
    let write = Write {
        org: principal.org.clone(),
        op,
        digest: digest.clone(),
        by: principal.user.clone(),
        at: resources.environment.now(),
        expected: Expected::Absent,
        change: ExtractionChange::Create(Box::new(extracted.into_new())),
    };
    match store.decide(&id, write).await? {
        WriteOutcome::Row(row) => outcome(&id, &row, &digest),
        WriteOutcome::VersionMismatch => Err(Error::request_id_conflict()),
    }
}

/// Checks that the tool call that created a job succeeded.
async fn check_succeeded(resources: &ToolResources, org: &OrgId, job: &JobId, call: &CallId) -> Result<()> {
    let row = resources.stores.ops.row(org, &Target::new(KIND, job), &batch_tool::op_of(call)).await?;
    match row.map(|row| row.state) {
        Some(OpState::Done(_)) => Ok(()),
        Some(OpState::Conflict | OpState::Aborted) => {
            let message = "the call that created the job was closed before it took effect";
            Err(Error::precondition(Reason::VersionConflict, message))
        }
        // The owner of the turn stores the row next, or closes the call.
        None => {
            let message = "the call that created the job has no recorded outcome yet";
            Err(Error::unavailable(Reason::StoreUnavailable, message))
        }
    }
}

/// Returns the outcome of an item whose op row is stored.
fn outcome(id: &ExtractionId, row: &OpRow, digest: &Digest) -> Result<Value> {
    match row.state {
        OpState::Done(_) if row.digest == *digest => Ok(json!({ "extraction_id": id.as_str() })),
        OpState::Done(_) => Err(Error::request_id_conflict()),
        OpState::Conflict | OpState::Aborted => {
            let message = "another process closed the write of the extraction";
            Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
        }
    }
}
