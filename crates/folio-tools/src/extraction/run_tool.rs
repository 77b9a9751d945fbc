//! The tool `run_extraction`. A document with more windows than a call may extract becomes a job, unless the call belongs to a run
//! that makes a proposal. So does a run of the agent, if the prompt states that the agent runs it.

use std::sync::Arc;

use async_trait::async_trait;

use folio_history::job::KIND;
use folio_resources::{Extraction, ExtractionChange, Prompt, PromptRevision, Resource as _};
use folio_types::op::{OpResult, Target};
use folio_types::profile::Subject;
use folio_types::{DocumentId, Error, PromptRevId, Reason};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::agent::agent_model;
use super::batch_tool::{job_output, plan_job, start_job};
use super::{Request, engine};
use crate::arguments::{self, optional, text};
use crate::call::{WriteCall, Writes};
use crate::decide::invalid_plan;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolKind, ToolOutput, WriteTool};
use crate::{document_text, documents, output, prompts, subject};

const PROMPT_REVID: &str =
    "Id of the prompt version, such as prm_….1 or $create_prompt.prompt_revid. Default: the working prompt.";

pub(super) fn tool() -> Tool {
    let tool = Tool::new(
        "run_extraction",
        "Runs a prompt on the conversation's document and stores the data as a new extraction. Needs a prompt \
         (create_prompt). Costs model calls; if it fails, nothing is stored. Result: extraction_id, document_id, \
         prompt_revid, data, coverage; of a long document, or of a prompt that an agent runs: job_id.",
        vec![optional("prompt_revid", text(PROMPT_REVID)).or_empty()],
        ToolKind::Write(Arc::new(RunOrJob(Writes::new()))),
    );
    Tool { calls_models: true, result_ids: output::ids(Extraction::KIND), ..tool }
}

/// Runs the extraction within the call, or starts a job. The plan, which a person may approve, decides which.
struct RunOrJob(Writes<RunExtraction>);

#[async_trait]
impl WriteTool for RunOrJob {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        let plan = self.0.plan(context, arguments).await?;
        let request = request(context, &plan)?;
        let (document, prompt) = (request.document.clone(), request.prompt.clone());
        // A run that makes a proposal is the work of a job itself, and needs the extraction before it ends.
        let is_within_job = matches!(context.subject, Some(Subject::Proposal(_)));
        // The agent reads the document page by page, so no windows are planned.
        let is_job = subject::find_revision::<Prompt>(context, &prompt).await?.is_run_by_agent
            || (engine::plan(&context.resources, request).await?.is_job() && !is_within_job);
        Ok(if is_job { plan_job(context, prompt, vec![document]) } else { plan })
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        match plan.target.kind() {
            KIND => start_job(context, arguments, plan).await,
            _ => self.0.run(context, arguments, plan).await,
        }
    }

    fn output(&self, target: &Target, result: OpResult, arguments: &Value) -> ToolOutput {
        match target.kind() {
            KIND => job_output(target, result),
            _ => self.0.output(target, result, arguments),
        }
    }
}

/// Returns the run of a planned call.
fn request(context: &CallContext, plan: &Plan) -> Result<Request, ToolError> {
    let Resolved { prompt, document } = Resolved::deserialize(&plan.resolved).map_err(|_| invalid_plan())?;
    Ok(Request {
        principal: context.principal.clone(),
        document,
        prompt,
        model: None,
        fallback_model: Some(context.model.clone()),
        key: format!("{}.{}", context.call, context.epoch),
        // A model that repeats a failed call in the same turn does not pay for its windows again.
        run: Some(context.call.turn.to_string()),
        steps: None,
    })
}

#[derive(Deserialize)]
struct RunExtraction {
    prompt_revid: Option<String>,
}

/// The resolved part of a plan: the prompt and the document.
#[derive(Serialize, Deserialize)]
struct Resolved {
    prompt: PromptRevId,
    document: DocumentId,
}

#[async_trait]
impl WriteCall for RunExtraction {
    type Target = Extraction;
    const CALLS_MODELS: bool = true;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        arguments::parse(arguments)
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let prompt = planned_prompt(context, self.prompt_revid.as_deref()).await?.revid;
        let document = documents::of_conversation(context).await?;
        document_text::check_ready(&document)?;
        let resolved = json!(Resolved { prompt, document: document.id });
        Ok(Plan { resolved, ..subject::plan_new::<Extraction>(context) })
    }

    async fn change(self, context: &CallContext, plan: &Plan) -> Result<ExtractionChange, ToolError> {
        let extracted = engine::run(&context.resources, request(context, plan)?).await.map_err(for_model)?;
        Ok(ExtractionChange::Create(Box::new(extracted.extraction)))
    }

    fn output(target: &Target, result: OpResult, _: &Value) -> ToolOutput {
        let mut output = output::of(target, result);
        output.change.prompt_revid = output.change.extraction.as_ref().map(|extraction| extraction.prompt.clone());
        output
    }
}

/// Resolves the prompt of a call, by default the working prompt, and checks that its model is available.
pub(super) async fn planned_prompt(context: &CallContext, revid: Option<&str>) -> Result<PromptRevision, ToolError> {
    let prompt = match revid {
        Some(revid) => prompts::revid(context, revid).await?,
        None => context.working.prompt_revid.clone().ok_or_else(|| {
            let text = "prompt_revid is missing and the working state has no prompt. Call list_prompts to find one, or \
                        create_prompt.";
            ToolError::ForModel(text.to_owned())
        })?,
    };
    let revision = subject::find_revision::<Prompt>(context, &prompt).await?;
    subject::name_revision::<Prompt>(context, &prompt).await?;
    let models = context.resources.models.catalogue(&context.principal.org).await?;
    let (of_prompt, of_turn) = (revision.model.as_deref(), Some(context.model.as_str()));
    if revision.is_run_by_agent {
        agent_model(&models, None, &[of_prompt, of_turn])?;
    } else {
        engine::model(&models, None, of_prompt, of_turn)?;
    }
    Ok(revision)
}

/// Maps errors of the model endpoint, which occur before any write, to `ForModel`: the model may repeat the call.
fn for_model(error: Error) -> ToolError {
    match error.reason {
        Reason::ModelFailed
        | Reason::ModelTimeout
        | Reason::ModelRefused
        | Reason::ModelRateLimited
        | Reason::ModelUnavailable => ToolError::ForModel(format!(
            "The extraction failed: {}. Nothing was stored. The call can be repeated.",
            error.message
        )),
        _ => error.into(),
    }
}
