//! Jobs that run one prompt on documents. An item is a document, and its effect is one extraction.

use folio_history::job::{EXTRACTION_KIND, ItemRun, KIND, Steps};
use folio_resources::{Extraction, ExtractionChange, Resource as _};
use folio_types::op::{Expected, OpKey, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::{
    CallId, Code, Digest, DocumentId, Error, ExtractionId, JobId, OrgId, Principal, Reason, RequestId, Result,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::tag_run::{self, TagRunEffect};
use super::{Request, batch_tool, engine};
use crate::tool::ToolResources;

pub use folio_history::job::ExtractionInput as JobInput;

/// The name of the kind of job.
pub const JOB_KIND: &str = EXTRACTION_KIND;

/// The stored effect of an item, which is the same for all of its attempts.
pub(super) struct Effect {
    pub(super) extraction: ExtractionId,
    /// Identity of the write and of the windows.
    pub(super) request: RequestId,
    pub(super) digest: Digest,
}

/// Runs an item: extracts the data of a document and stores them. An attempt finds the extraction of an earlier attempt,
/// and then calls no model; it also finds the answered windows of an earlier attempt. Returns the id of the extraction, or the
/// reason for which a run by a tag was skipped.
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
    let JobInput { prompt, model, fallback_model, call, credit_budget: _, tag_run } =
        JobInput::deserialize(input).map_err(malformed)?;
    let document: DocumentId = subject.parse()?;
    if let Some(call) = &call {
        check_succeeded(resources, &principal.org, &run.job, call).await?;
    }
    let store = resources.stores.of::<Extraction>();
    let Effect { extraction: id, request: effect, digest } = match &tag_run {
        None => {
            let effect = run.effect()?;
            let extraction = ExtractionId::derive(&[principal.org.as_str(), principal.user.as_str(), effect.as_str()]);
            let content = json!({ "job": JOB_KIND, "input": input, "document": document.as_str() });
            Effect { extraction, request: effect, digest: Digest::of_json(&content) }
        }
        Some(cause) => match tag_run::effect(resources, &principal.org, &document, &prompt, cause).await? {
            TagRunEffect::Run(effect) => effect,
            TagRunEffect::Exists(id) => return Ok(extracted_as(&id)),
            TagRunEffect::Skip(reason) => return Ok(json!({ "skipped": reason })),
        },
    };
    let identity = effect.as_str().to_owned();
    let op = OpKey::Request { user: principal.user.clone(), request: effect };
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
        // The job of another user stored the extraction of the same run meanwhile.
        WriteOutcome::VersionMismatch if tag_run.is_some() => Ok(extracted_as(&id)),
        WriteOutcome::VersionMismatch => Err(Error::request_id_conflict()),
    }
}

fn extracted_as(id: &ExtractionId) -> Value {
    json!({ "extraction_id": id.as_str() })
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
        OpState::Done(_) if row.digest == *digest => Ok(extracted_as(id)),
        OpState::Done(_) => Err(Error::request_id_conflict()),
        OpState::Conflict | OpState::Aborted => {
            let message = "another process closed the write of the extraction";
            Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
        }
    }
}
