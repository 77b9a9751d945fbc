//! `run_extraction`.

use async_trait::async_trait;
use folio_storage::ExtractionChange;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::{DocumentId, Error, ExtractionId, PromptRevId, Reason};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Request, engine, output};
use crate::arguments::{self, PROMPT_REVID_HINT};
use crate::decide::{done, misplanned, recorded, seed, write};
use crate::tool::{CallContext, Plan, ToolError, ToolOutput, ToolResources, WriteTool};
use crate::{document_text, documents, prompts};

pub(super) struct RunExtraction;

#[derive(Deserialize)]
struct Which {
    prompt_revid: Option<String>,
}

/// What a plan resolved: which prompt is run over which document.
#[derive(Serialize, Deserialize)]
struct Resolved {
    prompt: PromptRevId,
    document: DocumentId,
}

#[async_trait]
impl WriteTool for RunExtraction {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Which { prompt_revid } = arguments::read(arguments)?;
        let prompt: PromptRevId = match prompt_revid.as_deref().filter(|revid| !revid.is_empty()) {
            Some(revid) => arguments::id("prompt_revid", revid, PROMPT_REVID_HINT)?,
            None => context.working.prompt_revid.clone().ok_or_else(|| {
                let text =
                    "There is no working prompt; name a prompt_revid (list_prompts shows them), or create_prompt.";
                ToolError::Told(text.to_owned())
            })?,
        };
        let revision = prompts::revision(resources, context, &prompt).await?;
        engine::model(resources, None, revision.model.as_deref(), Some(&context.model))?;
        let document = documents::own(resources, context).await?;
        document_text::check_ready(&document)?;
        let [org, call] = seed(context);
        Ok(Plan {
            target: Target::Extraction(ExtractionId::derive(&[&org, &call])),
            expected: Expected::Absent,
            resolved: json!(Resolved { prompt, document: document.id }),
        })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let Target::Extraction(id) = &plan.target else { return Err(misplanned()) };
        // The model is not asked, and paid, again for what is recorded.
        if let Some(result) = recorded(resources, context, arguments, &plan.target).await? {
            return Ok(self.output(&plan.target, result));
        }
        let Resolved { prompt, document } = Resolved::deserialize(&plan.resolved).map_err(|_| misplanned())?;
        let request = Request {
            principal: context.principal.clone(),
            document,
            prompt,
            model: None,
            fallback_model: Some(context.model.clone()),
            key: format!("{}.{}", context.call, context.epoch),
        };
        let extracted = engine::run(resources, request).await.map_err(told)?;
        let change = ExtractionChange::Create(extracted.into_new());
        let write = write(resources, context, arguments, plan, change);
        let result = done(resources.stores.extractions.decide(id, write).await?)?;
        Ok(self.output(&plan.target, result))
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        let mut output = output(target, result);
        output.change.prompt_revid = output.change.extraction.as_ref().map(|extraction| extraction.prompt.clone());
        output
    }
}

/// An endpoint that failed did so before anything was written: the model is told, and may call again.
fn told(error: Error) -> ToolError {
    match error.reason {
        Reason::ModelFailed
        | Reason::ModelTimeout
        | Reason::ModelRefused
        | Reason::ModelRateLimited
        | Reason::ModelUnavailable => ToolError::Told(format!(
            "The extraction did not run: {}. Nothing was stored; it can be tried again.",
            error.message
        )),
        _ => error.into(),
    }
}
