//! The estimate of the credit that extractions of documents need.

use folio_resources::PromptRevision;
use folio_tools::extraction;
use folio_types::{DocumentId, Reason, Result, Role};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use super::{SERVICE, runnable_prompt};
use crate::context::Context;
use crate::declaration::{Declaration, Quota};
use crate::document_selection::{Selected, Selector};
use crate::operation::Operation;
use crate::reference::PromptRef;

/// Maximum number of documents that an estimate plans.
// proto: ExtractionService.GetExtractionEstimate "at most {} of the documents"
pub(super) const PLANNED_MAX: usize = 16;
/// Maximum number of documents that are planned at a time.
const PLANNED_AT_ONCE: usize = 4;
/// Minimum number of model calls of a run of the agent: it reads the text, saves the data, completes the extraction and ends
/// its turn.
// proto: GetExtractionEstimateResponse.credits "{} model calls for each window"
const AGENT_CALLS_MIN: u64 = 4;

/// Estimates the credit that [`RunExtractions`](super::RunExtractions) needs for documents. It plans some of the documents,
/// spread over the selection, and calls no model.
#[derive(Debug, Clone, Serialize)]
pub struct GetExtractionEstimate {
    pub document_ids: Vec<DocumentId>,
    pub document_filter: Option<String>,
    pub prompt_revid: PromptRef,
    pub model: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtractionEstimate {
    pub documents: u64,
    pub pages: u64,
    /// Credits if no answer has to be corrected.
    pub credits: u64,
    /// Number of documents that were planned.
    pub planned_documents: u64,
}

impl Operation for GetExtractionEstimate {
    const DECLARATION: Declaration =
        SERVICE.read("GetExtractionEstimate").role(Role::Member).long().quota(Quota::ModelCalls);
    type Output = ExtractionEstimate;

    async fn run(self, context: &Context) -> Result<ExtractionEstimate> {
        let documents = Selector::new(&self.document_ids, self.document_filter.as_deref())?;
        let prompt = runnable_prompt(context, &self.prompt_revid, self.model.as_deref()).await?;
        let selected = documents.read(context).await?;
        estimate(context, &prompt, self.model, &selected).await
    }
}

/// Estimates the credit of a prompt for documents.
///
/// # Errors
/// `MODEL_NOT_AVAILABLE`; the operation does not declare [`Quota::ModelCalls`].
pub(crate) async fn estimate(
    context: &Context,
    prompt: &PromptRevision,
    model: Option<String>,
    selected: &[Selected],
) -> Result<ExtractionEstimate> {
    let resources = context.tool_resources()?;
    let is_run_by_agent = prompt.is_run_by_agent;
    let (model, calls) = match is_run_by_agent {
        true => (Some(priced_agent_model(context, prompt, model.as_deref()).await?), AGENT_CALLS_MIN),
        false => (model, 1),
    };
    let planned = sample(selected).into_iter().map(|document| {
        let (resources, prompt, model) = (&resources, prompt.revid.clone(), model.clone());
        async move {
            let request = extraction::Request {
                principal: context.principal().clone(),
                document: document.id.clone(),
                prompt,
                model,
                fallback_model: None,
                key: String::new(),
                run: None,
                steps: None,
            };
            match extraction::plan(resources, request).await {
                Ok(planned) => Ok((document.pages, planned.price().saturating_mul(calls))),
                // The agent reads the document page by page. The price is extrapolated from other documents.
                Err(error) if is_run_by_agent && error.reason == Reason::TooLarge => Ok((0, 0)),
                // The item of such a document fails without a model call.
                Err(error) if matches!(error.reason, Reason::TooLarge | Reason::NoText | Reason::NotFound) => {
                    Ok((document.pages, 0))
                }
                Err(error) => Err(error),
            }
        }
    });
    let planned: Vec<_> = planned.collect();
    let planned: Vec<(u32, u64)> = futures::stream::iter(planned).buffered(PLANNED_AT_ONCE).try_collect().await?;
    let pages = selected.iter().map(|document| u64::from(document.pages)).sum();
    Ok(ExtractionEstimate {
        documents: selected.len() as u64,
        pages,
        credits: extrapolate(&planned, pages),
        planned_documents: planned.len() as u64,
    })
}

/// Returns the model whose prices apply to a prompt that the agent runs: the model of the agent if prompts may use it, else the
/// default model of prompts, because the windows of a document are planned for a prompt.
async fn priced_agent_model(context: &Context, prompt: &PromptRevision, requested: Option<&str>) -> Result<String> {
    let models = context.catalogue().await?;
    let model = extraction::agent_model(&models, requested, &[prompt.model.as_deref()])?;
    let priced = models.for_prompts(Some(model)).or_else(|_| models.for_prompts(None))?;
    Ok(priced.name.clone())
}

/// Returns at most [`PLANNED_MAX`] documents, spread evenly over the selection.
pub(super) fn sample(selected: &[Selected]) -> Vec<Selected> {
    let step = selected.len().div_ceil(PLANNED_MAX).max(1);
    selected.iter().step_by(step).cloned().collect()
}

/// Returns the price of all pages from the pages and the price of each planned document, rounded up.
pub(super) fn extrapolate(planned: &[(u32, u64)], pages: u64) -> u64 {
    let planned_pages: u128 = planned.iter().map(|(pages, _)| u128::from(*pages)).sum();
    let price: u128 = planned.iter().map(|(_, price)| u128::from(*price)).sum();
    if planned_pages == 0 {
        return 0;
    }
    u64::try_from((price * u128::from(pages)).div_ceil(planned_pages)).unwrap_or(u64::MAX)
}
