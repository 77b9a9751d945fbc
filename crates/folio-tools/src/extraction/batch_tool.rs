//! The tool `run_extractions`, which starts a job, and the writes of all tools that start jobs of extractions.
//!
//! A job has no version that a write could expect. The op row of the call, in the partition of the job, is the deciding
//! write: the job is created before it, and its items run only once the row states that the call succeeded
//! ([`super::run_job_item`]). The items of a job whose call was closed fail.
//!
//! If the turn has a credit budget, the job receives its part between both writes: then the job exists, and returns the part
//! when it ends, and no item has started.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{JobQueue, KIND, NewJob};
use folio_metering::Share;
use folio_resources::Document;
use folio_storage::{create_job, hint_job};
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Target, WriteOutcome};
use folio_types::{CallId, Digest, DocumentId, JobId, PromptRevId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JOB_KIND, JobInput, run_tool};
use crate::arguments::{self, list_of_text, optional, required, text};
use crate::decide::{into_result, invalid_plan, recorded_result};
use crate::subject::{self, ToolResource as _};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolKind, ToolOutput, WriteTool};
use crate::{document_text, output};

const DOCUMENTS: &str = "document_ids";
/// Note for the model in the result of a call that started a job.
const JOB_NOTE: &str =
    "The extraction runs in the background and is not finished. Give the user the job_id and end your turn.";

pub(super) fn tool() -> Tool {
    Tool::new(
        "run_extractions",
        "Starts a job that runs a prompt on several documents and stores an extraction of each. Call it for more than one \
         document; run_extraction is for the conversation's document. The job continues after the conversation. Result: \
         job_id.",
        vec![
            required(DOCUMENTS, list_of_text("Ids of documents from list_documents.", JOB_PAGE_ITEMS)),
            optional("prompt_revid", text("Id of the prompt version, such as prm_….1. Default: the working prompt."))
                .or_empty(),
        ],
        ToolKind::Write(Arc::new(RunExtractions)),
    )
}

#[derive(Deserialize)]
struct Arguments {
    document_ids: Vec<String>,
    prompt_revid: Option<String>,
}

/// The resolved part of a plan.
#[derive(Serialize, Deserialize)]
struct Resolved {
    prompt: PromptRevId,
    documents: Vec<DocumentId>,
}

struct RunExtractions;

#[async_trait]
impl WriteTool for RunExtractions {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        let Arguments { document_ids, prompt_revid } = arguments::parse(arguments)?;
        let prompt = run_tool::planned_prompt(context, prompt_revid.as_deref()).await?.revid;
        let documents = parse_documents(&document_ids)?;
        for id in &documents {
            let document = subject::find::<Document>(context, id).await?;
            let named = |error: folio_types::Error| ToolError::ForModel(format!("{id}: {}", error.message));
            document_text::check_ready(&document).map_err(named)?;
        }
        Ok(plan_job(context, prompt, documents))
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        start_job(context, arguments, plan).await
    }

    fn output(&self, target: &Target, result: OpResult, _: &Value) -> ToolOutput {
        job_output(target, result)
    }
}

/// Plans a job of a call.
pub(super) fn plan_job(context: &CallContext, prompt: PromptRevId, documents: Vec<DocumentId>) -> Plan {
    let job = JobId::derive(&[context.principal.org.as_str(), &context.call.to_string()]);
    let resolved = json!(Resolved { prompt, documents });
    Plan { target: Target::new(KIND, &job), expected: Expected::Absent, resolved }
}

/// Creates the planned job, and records that the call succeeded.
pub(super) async fn start_job(context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
    if let Some(result) = recorded_result(context, arguments, &plan.target).await? {
        return Ok(job_output(&plan.target, result));
    }
    let Resolved { prompt, documents } = Resolved::deserialize(&plan.resolved).map_err(|_| invalid_plan())?;
    let id: JobId = plan.target.id().parse().map_err(|_| invalid_plan())?;
    let (resources, org, at) = (&context.resources, &context.principal.org, context.resources.environment.now());
    let (fallback_model, call) = (Some(context.model.clone()), Some(context.call.clone()));
    let budget_part = context.budget_part.as_ref().map(|part| part.child(&id));
    let budget = budget_part.clone().map(|part| resources.budget(org, part));
    let new = NewJob {
        id: id.clone(),
        principal: context.principal.clone(),
        kind: JOB_KIND.to_owned(),
        input: json!(JobInput { fallback_model, call, budget_part, ..JobInput::new(prompt) }),
        items: documents.iter().map(ToString::to_string).collect(),
        running_max: resources.job_limits.running_time,
        at,
    };
    let stores = &resources.stores;
    let job = create_job(&*stores.jobs, &stores.job_pages(), &resources.job_limits, new).await?;
    // A user may have cancelled the job of an earlier attempt, which returns its part only once.
    if let Some(budget) = budget.as_ref().filter(|_| !job.is_ended()) {
        budget.grant(Share::Half, |_| false).await?;
    }
    let result = OpResult::Resource { id: plan.target.id().to_owned(), name: String::new() };
    let op = op_of(&context.call);
    let row = OpRow { op, digest: Digest::of_json(arguments), state: OpState::Done(result), at };
    let row = stores.ops.close(org, &plan.target, row).await?;
    let result = into_result(WriteOutcome::Row(row));
    if let (Err(_), Some(budget)) = (&result, &budget) {
        // Another process closed the call, and the job may have ended before it received the part.
        budget.take_back().await?;
    }
    let result = result?;
    // A node that starts the job before the op row is stored makes it wait.
    hint_job(&*resources.job_hints, JobQueue::Work, org, &id).await;
    Ok(job_output(&plan.target, result))
}

/// Returns the output of a call that started a job.
pub(super) fn job_output(target: &Target, result: OpResult) -> ToolOutput {
    let mut output = output::of(target, result);
    if let Some(content) = output.content.as_object_mut() {
        // A job has no name.
        content.remove("name");
        content.insert("note".to_owned(), JOB_NOTE.into());
    }
    output
}

/// Returns the key of the op row that decides whether the job of a call runs.
pub(super) fn op_of(call: &CallId) -> OpKey {
    OpKey::Call(call.clone())
}

fn parse_documents(texts: &[String]) -> Result<Vec<DocumentId>, ToolError> {
    if texts.is_empty() {
        return Err(ToolError::ForModel(format!("{DOCUMENTS} is empty: {}", Document::HINT)));
    }
    let ids = texts.iter().map(|text| arguments::id(DOCUMENTS, text, Document::HINT)).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    match ids.iter().find(|id: &&DocumentId| !seen.insert(*id)) {
        Some(repeated) => Err(ToolError::ForModel(format!("{DOCUMENTS} contains {repeated} twice. Name it once."))),
        None => Ok(ids),
    }
}
