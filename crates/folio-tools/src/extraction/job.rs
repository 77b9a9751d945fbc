//! Jobs that run one prompt on documents. An item is a document, and its effect is one extraction.

use folio_history::job::{EXTRACTION_KIND, ItemRun, KIND, Steps};
use folio_history::thread::NewThread;
use folio_resources::{Document, Extraction, ExtractionChange, ExtractionState, Prompt, PromptRevision, Resource as _};
use folio_storage::Stores;
use folio_types::op::{Expected, OpKey, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::profile::Subject;
use folio_types::{
    BudgetPart, CallId, Digest, DocumentId, Error, ExtractionId, JobId, OrgId, Principal, Reason, RequestId, Result,
    ThreadId,
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::agent::{AgentRunInput, agent_model, new_agent_extraction};
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

/// Runs an item: extracts the data of a document and stores them. If the agent runs the prompt, only the thread of the run and
/// the extraction in progress are created. An attempt finds the extraction of an earlier attempt, and then calls no model; it
/// also finds the answered windows of an earlier attempt. `steps` receives the number of answered windows. `budget_part`: the
/// part of a credit budget that pays for the item. The caller applies it to the meter, and the thread of a run keeps it.
///
/// # Errors
/// The errors of [`super::run`]; `VERSION_CONFLICT` if another process closed the write, or if a run by a tag began for an
/// earlier text of the document and is not stored.
pub async fn run_job_item(
    resources: &ToolResources,
    principal: &Principal,
    run: &ItemRun,
    subject: &str,
    input: &Value,
    steps: watch::Sender<Option<Steps>>,
    budget_part: Option<BudgetPart>,
) -> Result<ItemProgress> {
    let malformed = |error| Error::internal(format!("the input of the job {} is malformed: {error}", run.job));
    let JobInput { prompt, model, fallback_model, call, tag_run, .. } =
        JobInput::deserialize(input).map_err(malformed)?;
    let document: DocumentId = subject.parse()?;
    if let Some(call) = &call {
        check_succeeded(resources, &principal.org, &run.job, call).await?;
    }
    let org = &principal.org;
    let begun = match &tag_run {
        Some(_) if run.attempt > 1 => agent_run_of_item(&resources.stores, principal, &run.job, run.item).await?,
        _ => None,
    };
    if let Some((id, thread)) = begun
        && let Some(found) = resources.stores.of::<Extraction>().get(org, &id).await?
    {
        // The document may have another text now.
        return Ok(progress_of(found, thread));
    }
    let thread = agent_thread(principal, &run.job, run.item);
    let effect = match &tag_run {
        None => {
            let request = run.effect()?;
            let extraction = ExtractionId::derive(&[org.as_str(), principal.user.as_str(), request.as_str()]);
            let content = json!({ "job": JOB_KIND, "input": input, "document": document.as_str() });
            Effect { extraction, request, digest: Digest::of_json(&content) }
        }
        Some(cause) => match tag_run::effect(resources, org, &document, &prompt, cause).await? {
            TagRunEffect::Run(effect) => effect,
            TagRunEffect::Exists(extraction) => return Ok(progress_of(*extraction, thread)),
            TagRunEffect::Skip(reason) => return Ok(ItemProgress::Done(json!({ "skipped": reason }))),
        },
    };
    let (stores, id) = (&resources.stores, &effect.extraction);
    let op = OpKey::Request { user: principal.user.clone(), request: effect.request.clone() };
    if let Some(row) = stores.ops.row(org, &Extraction::target(id), &op).await? {
        check_done(&row, &effect.digest)?;
        return progress(stores, org, id, thread).await;
    }
    let revision = stores.of::<Prompt>().revision(org, &prompt).await?;
    let revision = revision.ok_or_else(|| Error::not_found("prompt revision", &prompt))?;
    let is_run_by_agent = revision.is_run_by_agent;
    let change = if is_run_by_agent {
        let models = (model.as_deref(), fallback_model.as_deref());
        begin(resources, principal, (id, &thread), &document, revision, models, (&run.job, budget_part)).await?
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
        ExtractionChange::Create(Box::new(engine::run(resources, request).await?.extraction))
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
        // Another job stored the extraction of the same run meanwhile.
        WriteOutcome::VersionMismatch if tag_run.is_some() => {}
        WriteOutcome::VersionMismatch => return Err(Error::request_id_conflict()),
    }
    if is_run_by_agent { progress(stores, org, id, thread).await } else { Ok(ItemProgress::Done(extracted_as(id))) }
}

/// Returns the thread in which the agent works for an item. All attempts of the item share it.
fn agent_thread(principal: &Principal, job: &JobId, item: u32) -> ThreadId {
    let (org, user, item) = (principal.org.as_str(), principal.user.as_str(), item.to_string());
    ThreadId::derive(&["extraction agent of an item", org, user, job.as_str(), &item])
}

/// Returns the extraction on which the agent works for an item, and the thread of the run. None: no attempt began a run. `item`:
/// the number of the item, from 1.
pub async fn agent_run_of_item(
    stores: &Stores,
    principal: &Principal,
    job: &JobId,
    item: u32,
) -> Result<Option<(ExtractionId, ThreadId)>> {
    let thread = agent_thread(principal, job, item);
    let header = stores.threads.header(&principal.org, &thread).await?;
    Ok(match header.and_then(|header| header.subject) {
        Some(Subject::Extraction(id)) => Some((id, thread)),
        _ => None,
    })
}

/// Creates the thread of a run of the agent, and returns the change that creates its extraction. `requested`, `fallback`: the
/// requested model, and the model if the prompt names none that conversations may use. `job`, `budget_part`: the job of the run,
/// and the part of a credit budget that pays for its turn.
async fn begin(
    resources: &ToolResources,
    principal: &Principal,
    (id, thread): (&ExtractionId, &ThreadId),
    document: &DocumentId,
    prompt: PromptRevision,
    (requested, fallback): (Option<&str>, Option<&str>),
    (job, budget_part): (&JobId, Option<BudgetPart>),
) -> Result<ExtractionChange> {
    let found = resources.stores.of::<Document>().get(&principal.org, document).await?;
    let found = found.ok_or_else(|| Error::not_found("document", document))?;
    check_ready(&found)?;
    let models = resources.models.catalogue(&principal.org).await?;
    let model = agent_model(&models, requested, &[prompt.model.as_deref(), fallback])?.to_owned();
    let (thread, revision) = (thread.clone(), prompt.revid.clone());
    let run = AgentRunInput::new(thread.clone(), revision, model.clone());
    let new_thread = run.new_thread(principal, job, id, found.id.clone(), resources.environment.now());
    let stored = resources.stores.threads.create(NewThread { budget_part, ..new_thread }).await?;
    if stored.subject != Some(Subject::Extraction(id.clone())) {
        let message = "the document got another text while the run of the agent began";
        return Err(Error::version_conflict(message));
    }
    Ok(ExtractionChange::Begin(Box::new(new_agent_extraction(found.id, prompt, model)), thread))
}

/// Returns the state of an item whose extraction was stored.
async fn progress(stores: &Stores, org: &OrgId, id: &ExtractionId, thread: ThreadId) -> Result<ItemProgress> {
    let found = stores.of::<Extraction>().get(org, id).await?;
    Ok(found.map_or_else(|| ItemProgress::Done(extracted_as(id)), |found| progress_of(found, thread)))
}

/// Returns the state of an item with an extraction. `thread`: the thread of the item. If it is not the thread of the newest run, a
/// person has started another run, or another job drives the run.
fn progress_of(extraction: Extraction, thread: ThreadId) -> ItemProgress {
    if extraction.state() == ExtractionState::Completed || !extraction.is_run_of(&thread) {
        return ItemProgress::Done(extracted_as(&extraction.id));
    }
    let Extraction { id, prompt, model, .. } = extraction;
    ItemProgress::Agent(id, Box::new(AgentRunInput::new(thread, prompt, model)))
}

fn extracted_as(id: &ExtractionId) -> Value {
    json!({ "extraction_id": id.as_str() })
}

/// Checks that the tool call that created a job succeeded.
///
/// # Errors
/// `STORE_UNAVAILABLE` if the call has no outcome yet; `VERSION_CONFLICT` if it was closed.
pub async fn check_succeeded(resources: &ToolResources, org: &OrgId, job: &JobId, call: &CallId) -> Result<()> {
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
            Err(Error::version_conflict(message))
        }
    }
}
