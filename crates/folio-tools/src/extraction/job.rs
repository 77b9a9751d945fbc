//! Jobs that run one prompt on several documents. An item is a document, and its effect is one extraction.

use folio_history::job::ItemRun;
use folio_resources::{Extraction, ExtractionChange, Resource as _};
use folio_types::op::{Expected, OpKey, OpRow, OpState, Write, WriteOutcome};
use folio_types::{Code, Digest, DocumentId, Error, ExtractionId, Principal, PromptRevId, Reason, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Request, engine};
use crate::tool::ToolResources;

/// The name of the kind of job.
pub const JOB_KIND: &str = "extraction";

/// The input of a job. The subjects of its items are the ids of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInput {
    pub prompt: PromptRevId,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
}

/// Runs an item: extracts the data of a document and stores them. An attempt finds the extraction of an earlier attempt,
/// and then calls no model. Returns the id of the extraction.
///
/// # Errors
/// The errors of [`super::run`]; `VERSION_CONFLICT` if another process closed the write.
pub async fn run_job_item(
    resources: &ToolResources,
    principal: &Principal,
    run: &ItemRun,
    subject: &str,
    input: &Value,
) -> Result<Value> {
    let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", run.job));
    let JobInput { prompt, model } = JobInput::deserialize(input).map_err(malformed)?;
    let document: DocumentId = subject.parse()?;
    let (effect, store) = (run.effect()?, resources.stores.of::<Extraction>());
    let id = ExtractionId::derive(&[principal.org.as_str(), principal.user.as_str(), effect.as_str()]);
    let op = OpKey::Request { user: principal.user.clone(), request: effect };
    let digest = Digest::of_json(&json!({ "job": JOB_KIND, "input": input, "document": document.as_str() }));
    if let Some(row) = resources.stores.ops.row(&principal.org, &Extraction::target(&id), &op).await? {
        return outcome(&id, &row, &digest);
    }
    let request =
        Request { principal: principal.clone(), document, prompt, model, fallback_model: None, key: run.ledger_key(1) };
    let extracted = engine::run(resources, request).await?;
    let write = Write {
        org: principal.org.clone(),
        op,
        digest: digest.clone(),
        by: principal.user.clone(),
        at: resources.environment.now(),
        expected: Expected::Absent,
        change: ExtractionChange::Create(extracted.into_new()),
    };
    match store.decide(&id, write).await? {
        WriteOutcome::Row(row) => outcome(&id, &row, &digest),
        WriteOutcome::VersionMismatch => Err(Error::request_id_conflict()),
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
