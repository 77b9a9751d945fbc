//! Jobs that run one prompt on documents. An item is a document, and its effect is one extraction.

use folio_history::job::{EXTRACTION_KIND, ItemRun, KIND, Steps};
use folio_resources::{Document, Extraction, ExtractionChange, ExtractionState, Prompt, PromptRevision, Resource as _};
use folio_types::op::{Expected, OpKey, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::{
    CallId, Code, Digest, DocumentId, Error, ExtractionId, JobId, OrgId, Principal, Reason, RequestId, Result, ThreadId,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::agent::{AgentRunInput, FIRST_RUN, agent_model, new_agent_extraction};
use super::tag_run::{self, TagRunEffect};
use super::{Request, batch_tool, check_ready, engine};
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

/// The state of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemProgress {
    /// The outcome of the item: the id of the extraction, or the reason for which a run by a tag was skipped.
    Done(Value),
    /// The agent works on this extraction. The caller drives the run to its end.
    Agent(ExtractionId, Box<AgentRunInput>),
}

/// Runs an item: extracts the data of a document and stores them. If the agent runs the prompt, only the extraction in progress
/// and the thread of the run are created. An attempt finds the extraction of an earlier attempt, and then calls no model; it
/// also finds the answered windows of an earlier attempt. `steps` receives the number of answered windows.
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
) -> Result<ItemProgress> {
    let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", run.job));
    let JobInput { prompt, model, fallback_model, call, credit_budget: _, tag_run } =
        JobInput::deserialize(input).map_err(malformed)?;
    let document: DocumentId = subject.parse()?;
    if let Some(call) = &call {
        check_succeeded(resources, &principal.org, &run.job, call).await?;
    }
    let effect = match &tag_run {
        None => {
            let request = run.effect()?;
            let extraction = ExtractionId::derive(&[principal.org.as_str(), principal.user.as_str(), request.as_str()]);
            let content = json!({ "job": JOB_KIND, "input": input, "document": document.as_str() });
            Effect { extraction, request, digest: Digest::of_json(&content) }
        }
        Some(cause) => match tag_run::effect(resources, &principal.org, &document, &prompt, cause).await? {
            TagRunEffect::Run(effect) => effect,
            TagRunEffect::Exists(effect) => return progress(resources, principal, &effect).await,
            TagRunEffect::Skip(reason) => return Ok(ItemProgress::Done(json!({ "skipped": reason }))),
        },
    };
    let (stores, org, id) = (&resources.stores, &principal.org, &effect.extraction);
    let op = OpKey::Request { user: principal.user.clone(), request: effect.request.clone() };
    if let Some(row) = stores.ops.row(org, &Extraction::target(id), &op).await? {
        check_done(&row, &effect.digest)?;
        return progress(resources, principal, &effect).await;
    }
    let revision = stores.of::<Prompt>().revision(org, &prompt).await?;
    let revision = revision.ok_or_else(|| Error::not_found("prompt revision", &prompt))?;
    let is_run_by_agent = revision.is_run_by_agent;
    let change = if is_run_by_agent {
        begin(resources, org, &document, revision, (model.as_deref(), fallback_model.as_deref())).await?
    } else {
        let request = Request {
            principal: principal.clone(),
            document,
            prompt,
            model,
            fallback_model,
            key: run.ledger_key(1),
            run: Some(effect.request.as_str().to_owned()),
            steps: Some(steps),
        };
        ExtractionChange::Create(Box::new(engine::run(resources, request).await?.into_new()))
    };
    let write = Write {
        org: org.clone(),
        op,
        digest: effect.digest.clone(),
        by: principal.user.clone(),
        at: resources.environment.now(),
        expected: Expected::Absent,
        change,
    };
    match stores.of::<Extraction>().decide(id, write).await? {
        WriteOutcome::Row(row) => check_done(&row, &effect.digest)?,
        // The job of another user stored the extraction of the same run meanwhile.
        WriteOutcome::VersionMismatch if tag_run.is_some() => {}
        WriteOutcome::VersionMismatch => return Err(Error::request_id_conflict()),
    }
    if is_run_by_agent {
        progress(resources, principal, &effect).await
    } else {
        Ok(ItemProgress::Done(extracted_as(id)))
    }
}

/// Returns the change that creates the extraction on which the agent works. `requested`, `fallback`: the requested model, and
/// the model if the prompt names none that conversations may use.
async fn begin(
    resources: &ToolResources,
    org: &OrgId,
    document: &DocumentId,
    prompt: PromptRevision,
    (requested, fallback): (Option<&str>, Option<&str>),
) -> Result<ExtractionChange> {
    let found = resources.stores.of::<Document>().get(org, document).await?;
    let found = found.ok_or_else(|| Error::not_found("document", document))?;
    check_ready(&found)?;
    let models = resources.models.catalogue(org).await?;
    let model = agent_model(&models, requested, &[prompt.model.as_deref(), fallback])?.to_owned();
    Ok(ExtractionChange::Begin(Box::new(new_agent_extraction(found.id, prompt, model))))
}

/// Returns the state of an item whose extraction is stored. The first run of the agent on it may not have completed it; then
/// the thread of the run is created, unless an earlier attempt has created it. A run of another user is driven by the job of
/// that user.
async fn progress(resources: &ToolResources, principal: &Principal, effect: &Effect) -> Result<ItemProgress> {
    let (stores, org, id) = (&resources.stores, &principal.org, &effect.extraction);
    let is_first_run = |extraction: &Extraction| {
        let run = extraction.agent.as_ref();
        run.is_some_and(|run| run.number == FIRST_RUN && run.state != ExtractionState::Completed)
    };
    let found = stores.of::<Extraction>().get(org, id).await?;
    let Some(extraction) = found.filter(|found| is_first_run(found) && found.created_by == principal.user) else {
        return Ok(ItemProgress::Done(extracted_as(id)));
    };
    let user = principal.user.as_str();
    let thread = ThreadId::derive(&["extraction agent of an item", org.as_str(), user, effect.request.as_str()]);
    let run = AgentRunInput::first(&extraction, thread);
    stores.threads.create(run.new_thread(principal, &extraction, resources.environment.now())).await?;
    Ok(ItemProgress::Agent(id.clone(), Box::new(run)))
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

/// Checks that the write of an item, whose op row is stored, is done.
fn check_done(row: &OpRow, digest: &Digest) -> Result<()> {
    match row.state {
        OpState::Done(_) if row.digest == *digest => Ok(()),
        OpState::Done(_) => Err(Error::request_id_conflict()),
        OpState::Conflict | OpState::Aborted => {
            let message = "another process closed the write of the extraction";
            Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
        }
    }
}
