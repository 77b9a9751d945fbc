//! The extraction engine: runs a prompt on a document, window by window.

mod answer;
mod budget;
mod window;

use std::ops::ControlFlow;

use folio_history::job::Steps;
use folio_llm::{Catalogue, ModelError, ModelInfo};
use folio_resources::{
    Document, ExtractionReport, FieldConfidence, NewExtraction, Prompt, PromptRevision, Schema, SchemaRevision, leaves,
};
use folio_storage::value::PageText;
use folio_types::message::Usage;
use folio_types::{Coverage, DocumentId, Error, Principal, PromptRevId, Reason, Result};
use serde_json::Value;
use tokio::sync::watch;

use self::answer::mismatch;
pub use self::answer::unfenced;
use super::citation::{Cited, cite_new};
use super::examples::Example;
use super::merge::{Merged, merge};
use super::rule::reviewed;
use super::windows::{self, Plan, Planner, Window};
use crate::tool::ToolResources;
use crate::{document_text, rules};

/// Model calls per window: the first, and one correction with the violations.
const ATTEMPTS: u32 = 2;
/// Minimum tokens of the text of a window.
const WINDOW_TOKENS_MIN: u64 = 256;

#[derive(Debug, Clone)]
pub struct Request {
    /// Caller on whose behalf the run is made.
    pub principal: Principal,
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Model that the caller requests. It has precedence over the prompt's model.
    pub model: Option<String>,
    /// Model if neither the caller nor the prompt names one (the model of the turn). None: the default model.
    pub fallback_model: Option<String>,
    /// Prefix of the ledger keys of the model calls, unique per attempt of the run. The window and the number of the call are
    /// appended.
    pub key: String,
    /// Identity of the run, equal for all of its attempts. The answers of windows are recorded under it. None: the run is
    /// never repeated.
    pub run: Option<String>,
    /// Receives the number of answered windows. None: the run is not part of a job, and no fallback model may need more
    /// windows than [`Options::request_windows_max`](super::Options::request_windows_max).
    pub steps: Option<watch::Sender<Option<Steps>>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The extraction to store, with the data of all windows, normalized and merged.
    pub extraction: NewExtraction,
    /// Sum over all answered model calls, including calls of a model that was replaced by a fallback.
    pub usage: Usage,
}

/// Selects the model of a run: the caller's, else the prompt's, else the fallback if prompts may use it, else the
/// default. Fails with `MODEL_NOT_AVAILABLE` if prompts may not use the caller's or the prompt's model.
pub(super) fn model<'a>(
    models: &'a Catalogue,
    requested: Option<&str>,
    prompt_model: Option<&str>,
    fallback: Option<&str>,
) -> Result<&'a ModelInfo> {
    if let Some(name) = requested.or(prompt_model) {
        return models.for_prompts(Some(name));
    }
    match fallback.map(|name| models.for_prompts(Some(name))) {
        Some(Ok(info)) => Ok(info),
        _ => models.for_prompts(None),
    }
}

/// A run whose windows are planned for the requested model. It has called no model.
pub struct PlannedRun<'a> {
    run: Run<'a>,
    plan: Plan,
    /// The models to try after the requested one.
    fallbacks: Vec<ModelInfo>,
}

/// Divides the document into windows.
///
/// # Errors
/// `NOT_FOUND` (document or prompt), `NO_TEXT`, `MODEL_NOT_AVAILABLE`, and `TOO_LARGE` beyond the bounds of
/// [`Options`](super::Options).
pub async fn plan(resources: &ToolResources, request: Request) -> Result<PlannedRun<'_>> {
    let (run, fallbacks) = Run::load(resources, request).await?;
    let plan = run.plan(resources.extraction.windows_max).await?;
    Ok(PlannedRun { run, plan, fallbacks })
}

impl PlannedRun<'_> {
    /// Returns true if the extraction runs as a job.
    pub fn is_job(&self) -> bool {
        windows::runs_as_job(self.plan.windows.len(), &self.run.resources.extraction)
    }

    /// Returns the maximum price in credits with the requested model, if no answer has to be corrected.
    pub fn price(&self) -> u64 {
        let budget = self.run.budget();
        let price = |window: &Window| self.run.max_price(&budget, window.tokens) / u64::from(ATTEMPTS);
        self.plan.windows.iter().map(price).fold(0, u64::saturating_add)
    }

    /// Runs the prompt on all windows, one after another, and merges the data. For each window it calls the model with the
    /// schema as response format, validates the answer, and calls the model once more with the violations if there are any.
    /// Every model call is metered.
    ///
    /// # Errors
    /// Errors of the model endpoint, and `SCHEMA_MISMATCH` if a second answer or the merged data violate the schema.
    pub async fn run(self) -> Result<Extracted> {
        let Self { mut run, mut plan, fallbacks } = self;
        run.examples = run.select_examples(&plan).await?;
        let (resources, options) = (run.resources, &run.resources.extraction);
        let windows_max = if run.request.steps.is_some() { options.windows_max } else { options.request_windows_max };
        // A run may be repeated in the same epoch (if its write was refused); a random part keeps the ledger keys unique.
        let key = run.request.key.clone();
        let mut fallbacks = fallbacks.into_iter();
        // Returned if every fallback is too small or too expensive.
        let mut requested_model_error = None;
        let mut usage = Usage::default();
        loop {
            run.request.key = format!("{key}.{:08x}", resources.environment.random() >> 96);
            match run.extract(&plan, &mut usage).await {
                Err(RunError::Model(error)) if error.allows_fallback() && fallbacks.len() > 0 => {
                    tracing::warn!(document = %run.document.id, model = run.model.name, %error, "model failed; a fallback is used");
                    requested_model_error.get_or_insert(error);
                }
                Err(RunError::Other(error))
                    if requested_model_error.is_some()
                        && matches!(error.reason, Reason::CreditExhausted | Reason::BudgetExhausted) => {}
                result => return result.map_err(Error::from),
            }
            plan = loop {
                let Some(model) = fallbacks.next() else {
                    let no_model = || Error::internal("no model can run the extraction");
                    return Err(requested_model_error.map_or_else(no_model, Error::from));
                };
                run.model = model;
                match run.plan(windows_max).await {
                    Ok(plan) => break plan,
                    Err(RunError::TooSmall(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            };
        }
    }
}

/// Plans a run and runs it.
///
/// # Errors
/// Those of [`plan`] and [`PlannedRun::run`].
pub async fn run(resources: &ToolResources, request: Request) -> Result<Extracted> {
    plan(resources, request).await?.run().await
}

/// Failure of a run with one model.
enum RunError {
    Model(ModelError),
    /// The model's context is too small for the prompt, or the extraction exceeds a bound with this model.
    TooSmall(Error),
    Other(Error),
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<RunError> for Error {
    fn from(result: RunError) -> Self {
        match result {
            RunError::Model(error) => error.into(),
            RunError::TooSmall(error) | RunError::Other(error) => error,
        }
    }
}

impl Run<'_> {
    /// Runs the prompt with one model and adds its usage to `usage`.
    async fn extract(&self, plan: &Plan, usage: &mut Usage) -> Result<Extracted, RunError> {
        let mut answers = Vec::with_capacity(plan.windows.len());
        for number in 1..=plan.windows.len() {
            answers.push(self.window(plan, number, usage).await?);
            if let Some(steps) = &self.request.steps {
                let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                steps.send_replace(Some(Steps { done: count(number), total: count(plan.windows.len()) }));
            }
        }
        let Merged { data, conflicts, originals, evidence } = merge(&answers);
        if answers.len() > 1 {
            self.check_merged(&data).await?;
        }
        let (stores, org) = (&self.resources.stores, &self.request.principal.org);
        let quotes = evidence.iter().filter_map(|(path, found)| Some((path.clone(), found.quote.clone()?))).collect();
        let found = cite_new(stores, org, &self.document, &data, &quotes).await?;
        let Cited { citations, located, cited, inferred, .. } = found;
        let confidence = |(path, _): (String, &Value)| {
            let confidence = evidence.get(&path)?.confidence?;
            Some(FieldConfidence { path, confidence })
        };
        let confidences = leaves(&data).into_iter().filter_map(confidence).collect();
        let coverage = Coverage {
            located,
            cited,
            inferred,
            pages: self.document.pages,
            windows: u32::try_from(answers.len()).unwrap_or(u32::MAX),
            model_calls: answers.iter().map(|answer| answer.model_calls).sum(),
            ..plan.coverage.clone()
        };
        let text_generation = self.document.text_generation;
        let report = ExtractionReport {
            coverage,
            conflicts,
            originals,
            citations,
            text_generation,
            confidences,
            examples: self.examples_for(plan).iter().map(|example| example.used.clone()).collect(),
            ..ExtractionReport::default()
        };
        let (report, approvals) = reviewed(stores, org, self.schema.as_ref(), &data, report.bounded()).await?;
        let extraction = NewExtraction {
            document: self.document.id.clone(),
            prompt: self.prompt.revid.clone(),
            schema: self.schema.as_ref().map(|schema| schema.revid.clone()),
            model: self.model.name.clone(),
            data,
            report,
            approvals,
        };
        Ok(Extracted { extraction, usage: *usage })
    }

    /// Divides the text into windows, and refuses an extraction beyond the bounds before the first model call.
    async fn plan(&self, windows_max: u32) -> Result<Plan, RunError> {
        let (options, document) = (&self.resources.extraction, &self.document);
        let refused = |message: String| RunError::TooSmall(Error::precondition(Reason::TooLarge, message));
        if document.pages > options.pages_max {
            let message = format!(
                "the document has {} pages; an extraction reads at most {} (setting extraction.pages_max)",
                document.pages, options.pages_max
            );
            return Err(refused(message));
        }
        let budget = self.budget();
        if budget.text < WINDOW_TOKENS_MIN {
            return Err(refused(format!("the context of model {} is too small for this prompt", self.model.name)));
        }
        let mut planner = Planner::new(budget.text);
        let (stores, org) = (&self.resources.stores, &self.request.principal.org);
        let add = |page: PageText| {
            planner.add_page(page.number, &page.text, page.gap);
            ControlFlow::Continue(())
        };
        document_text::for_each_page(stores, org, &document.id, (1, document.pages), add).await?;
        let plan = planner.finish();
        let windows = plan.windows.len();
        if u32::try_from(windows).unwrap_or(u32::MAX) > windows_max {
            let message = format!(
                "the document needs {windows} windows of {} tokens with model {}; an extraction has at most {windows_max} \
                 (setting extraction.windows_max): use a model with a larger context",
                budget.text, self.model.name
            );
            return Err(refused(message));
        }
        let max_price = |window: &Window| self.max_price(&budget, window.tokens);
        let credits = plan.windows.iter().map(max_price).fold(0, u64::saturating_add);
        if credits > options.credits_max {
            let message = format!(
                "the extraction may cost {credits} credits in {windows} windows; the maximum is {} (setting \
                 extraction.credits_max)",
                options.credits_max
            );
            return Err(refused(message));
        }
        Ok(plan)
    }

    /// Validates the merged data, because each window was validated alone.
    async fn check_merged(&self, data: &Value) -> Result<()> {
        rules::check_data("data", data)?;
        let Some(schema) = &self.schema else { return Ok(()) };
        let violations = rules::violations_of("schema", schema, data).await?;
        if violations.is_empty() { Ok(()) } else { Err(mismatch("The merged data of the windows", &violations)) }
    }
}

/// A run with its loaded document, prompt, schema and model.
struct Run<'a> {
    resources: &'a ToolResources,
    request: Request,
    document: Document,
    prompt: PromptRevision,
    schema: Option<SchemaRevision>,
    model: ModelInfo,
    /// Examples for a document with one window, the most similar first.
    examples: Vec<Example>,
}

impl<'a> Run<'a> {
    /// Loads a run with the requested model. Also returns the models to try after it.
    async fn load(resources: &'a ToolResources, request: Request) -> Result<(Self, Vec<ModelInfo>)> {
        let (stores, org) = (&resources.stores, &request.principal.org);
        let prompt = stores.of::<Prompt>().revision(org, &request.prompt).await?;
        let prompt = prompt.ok_or_else(|| Error::not_found("prompt revision", &request.prompt))?;
        let document = stores.of::<Document>().get(org, &request.document).await?;
        let document = document.ok_or_else(|| Error::not_found("document", &request.document))?;
        document_text::check_ready(&document)?;
        let schema = match &prompt.schema {
            Some(revid) => {
                let found = stores.of::<Schema>().revision(org, revid).await?;
                Some(found.ok_or_else(|| Error::not_found("schema revision", revid))?)
            }
            None => None,
        };
        let (requested, fallback) = (request.model.as_deref(), request.fallback_model.as_deref());
        let models = resources.models.catalogue(org).await?;
        let model = model(&models, requested, prompt.model.as_deref(), fallback)?;
        let strict = schema.is_some() && model.options.json_schema;
        let mut candidates =
            models.candidates(model, |other| other.options.prompts && (other.options.json_schema || !strict));
        let fallbacks = candidates.split_off(1.min(candidates.len()));
        let model = model.clone();
        Ok((Self { resources, request, document, prompt, schema, model, examples: Vec::new() }, fallbacks))
    }
}
