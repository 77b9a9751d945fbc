//! `run_extraction`.

use async_trait::async_trait;
use folio_storage::ExtractionChange;
use folio_types::extraction::Extraction;
use folio_types::op::{OpResult, Target};
use folio_types::{DocumentId, Error, PromptRevId, Reason};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Request, engine};
use crate::arguments::{self, optional, text};
use crate::call::{WriteCall, writes};
use crate::decide::misplanned;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolOutput, ToolResources};
use crate::{document_text, documents, output, prompts, subject};

pub(super) fn tool() -> Tool {
    writes::<RunExtraction>(
        "run_extraction",
        "Runs a prompt over the conversation's document: a model reads the text, and its answer is held to the \
         prompt's schema and stored as the document's extraction. Gives the data.",
        vec![
            optional(
                "prompt_revid",
                text("The prompt revision, such as prm_….1. Left out: the prompt of the working state."),
            )
            .or_empty(),
        ],
    )
    .calling_models()
}

#[derive(Deserialize)]
struct RunExtraction {
    prompt_revid: Option<String>,
}

/// What a plan resolved: which prompt is run over which document.
#[derive(Serialize, Deserialize)]
struct Resolved {
    prompt: PromptRevId,
    document: DocumentId,
}

#[async_trait]
impl WriteCall for RunExtraction {
    type Of = Extraction;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        arguments::read(arguments)
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        let prompt = match self.prompt_revid.as_deref().filter(|revid| !revid.is_empty()) {
            Some(revid) => prompts::revid(revid)?,
            None => context.working.prompt_revid.clone().ok_or_else(|| {
                let text =
                    "There is no working prompt; name a prompt_revid (list_prompts shows them), or create_prompt.";
                ToolError::Told(text.to_owned())
            })?,
        };
        let revision = prompts::revision(resources, context, &prompt).await?;
        let models = resources.models.catalogue(&context.principal.org).await?;
        engine::model(&models, None, revision.model.as_deref(), Some(&context.model))?;
        let document = documents::own(resources, context).await?;
        document_text::check_ready(&document)?;
        let resolved = json!(Resolved { prompt, document: document.id });
        Ok(Plan { resolved, ..subject::new::<Extraction>(context) })
    }

    /// Asks the model. What is recorded never comes here: no model is paid twice.
    async fn change(
        self,
        resources: &ToolResources,
        context: &CallContext,
        plan: &Plan,
    ) -> Result<ExtractionChange, ToolError> {
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
        Ok(ExtractionChange::Create(extracted.into_new()))
    }

    fn output(target: &Target, result: OpResult) -> ToolOutput {
        let mut output = output::of(target, result);
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
