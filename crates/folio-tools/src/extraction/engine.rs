//! The extraction engine: runs a prompt on a document, window by window.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use folio_history::job::Steps;
use folio_llm::schema::{Violation, describe};
use folio_llm::{
    Catalogue, MESSAGE_OVERHEAD_TOKENS, ModelError, ModelInfo, ModelReply, ModelRequest, ResponseFormat, count_tokens,
};
use folio_metering::MeteredCall;
use folio_resources::{
    Document, ExtractionReport, FieldConfidence, NewExtraction, Prompt, PromptRevision, Review, Schema, SchemaRevision,
    leaves,
};
use folio_storage::value::PageText;
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::notation::Style;
use folio_types::{Code, Coverage, DocumentId, Error, Principal, PromptRevId, Reason, Result, SchemaRevId, json};
use serde_json::Value;
use tokio::sync::watch;

use super::answer_size::answer_tokens;
use super::citation::{Cited, cite_new};
use super::evidence::pages_of;
use super::examples::{self, Example};
use super::merge::{Merged, WindowAnswer, merge};
use super::message::Position;
use super::model_evidence::{self, Evidence};
use super::normalize::normalize;
use super::rule::reviewed;
use super::window_record::WindowRecord;
use super::windows::{self, Plan, Planner, Window};
use super::{message, metered};
use crate::document_text::{self, fit};
use crate::rules;
use crate::tool::ToolResources;

/// Model calls per window: the first, and one correction with the violations.
const ATTEMPTS: u32 = 2;
/// Tokens of the context that are reserved for the violations of the first answer.
const CORRECTION_TOKENS: u64 = 1_500;
/// Minimum tokens of the text of a window.
const WINDOW_TOKENS_MIN: u64 = 256;
/// Position with the longest text.
const LAST_POSITION: Position = Position { window: 64, windows: 64, first_page: 100_000, last_page: 100_000 };

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
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Schema that the data match. None if the prompt has none.
    pub schema: Option<SchemaRevId>,
    /// Model that produced the data.
    pub model: String,
    /// Data of all windows, normalized and merged.
    pub data: Value,
    pub report: ExtractionReport,
    /// Approvals by the review rule of the schema. None: the schema has no rule.
    pub approvals: Option<Review>,
    /// Sum over all answered model calls, including calls of a model that was replaced by a fallback.
    pub usage: Usage,
}

impl Extracted {
    /// Returns the extraction to store.
    pub fn into_new(self) -> NewExtraction {
        NewExtraction {
            document: self.document,
            prompt: self.prompt,
            schema: self.schema,
            model: self.model,
            data: self.data,
            report: self.report,
            approvals: self.approvals,
        }
    }
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

/// The question of one window.
struct Question {
    text: String,
    /// Notation of numbers and dates in the window.
    style: Style,
    /// Number of the window, from 1. Part of the ledger key.
    window: usize,
}

/// A valid answer to a question.
struct Answer {
    data: Value,
    /// Original texts of normalized values by path.
    originals: BTreeMap<String, String>,
    evidence: Evidence,
    model_calls: u32,
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
        Ok(Extracted {
            document: self.document.id.clone(),
            prompt: self.prompt.revid.clone(),
            schema: self.schema.as_ref().map(|schema| schema.revid.clone()),
            model: self.model.name.clone(),
            data,
            report,
            approvals,
            usage: *usage,
        })
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

    /// Returns the answer for a window: the recorded one of an earlier attempt of this run, else that of the model.
    async fn window(&self, plan: &Plan, number: usize, usage: &mut Usage) -> Result<WindowAnswer, RunError> {
        let windows = plan.windows.len();
        let window = number.checked_sub(1).and_then(|index| plan.windows.get(index)).cloned().unwrap_or_default();
        let pages = self.pages(&window).await?;
        let position = window.pages().filter(|_| windows > 1).map(|(first_page, last_page)| Position {
            window: number,
            windows,
            first_page,
            last_page,
        });
        let question = self.question(self.examples_for(plan), position, number, &pages);
        let (stores, principal) = (&self.resources.stores, &self.request.principal);
        let record = match self.request.run.as_deref().filter(|_| windows > 1) {
            Some(run) => {
                let input = format!("{}\n{}", self.prompt.revid, question.text);
                Some(WindowRecord::new(principal, run, &self.model.name, number, &input)?)
            }
            None => None,
        };
        if let Some(record) = &record
            && let Some(answer) = record.read(stores, principal).await?
        {
            return Ok(answer);
        }
        let Answer { data, originals, evidence, model_calls } = self.answer(question, usage).await?;
        let mut answer = WindowAnswer { data, originals, evidence, model_calls, ..WindowAnswer::default() };
        if windows > 1 {
            answer = with_pages(answer, pages, plan.structured_page).await?;
        }
        if let Some(record) = record {
            record.write(stores, principal, &answer, self.resources.environment.now()).await;
        }
        Ok(answer)
    }

    /// Reads the text of a window by page.
    async fn pages(&self, window: &Window) -> Result<Vec<(u32, String)>> {
        let Some((first, last)) = window.pages() else { return Ok(Vec::new()) };
        let mut pages = Vec::with_capacity(window.parts.len());
        let add = |page: PageText| {
            let part = window.parts.iter().find(|part| part.page == page.number);
            let text = part.and_then(|part| page.text.get(part.range.clone()));
            pages.extend(text.map(|text| (page.number, text.to_owned())));
            ControlFlow::Continue(())
        };
        let (stores, org) = (&self.resources.stores, &self.request.principal.org);
        document_text::for_each_page(stores, org, &self.document.id, (first, last - first + 1), add).await?;
        if pages.len() == window.parts.len() {
            return Ok(pages);
        }
        let message = "the text of the document changed during the extraction; repeat the extraction";
        Err(Error::new(Code::Aborted, Reason::VersionConflict, message))
    }

    /// Selects examples for a document with one window: the whole answer of an example does not suit a part of a document.
    async fn select_examples(&self, plan: &Plan) -> Result<Vec<Example>> {
        let Some(schema) = self.schema.as_ref().filter(|_| plan.windows.len() == 1) else { return Ok(Vec::new()) };
        let ToolResources { stores, extraction, .. } = self.resources;
        examples::select(stores, &self.request.principal.org, &self.document, schema, extraction).await
    }

    /// Returns the examples that the model reads: as many as its context and the maximum price permit.
    fn examples_for(&self, plan: &Plan) -> &[Example] {
        let [window] = plan.windows.as_slice() else { return &[] };
        let budget = self.budget();
        examples::fitting(&self.examples, |tokens| {
            let tokens = window.tokens.saturating_add(tokens);
            tokens <= budget.text && self.max_price(&budget, tokens) <= self.resources.extraction.credits_max
        })
    }

    /// Returns the user message for the text of a window.
    fn question(
        &self,
        examples: &[Example],
        position: Option<Position>,
        window: usize,
        pages: &[(u32, String)],
    ) -> Question {
        let mut document = String::new();
        for (number, page) in pages {
            document_text::add_page(&mut document, (self.document.pages > 1).then_some(*number), page);
        }
        let instructions = message::with_examples(&self.prompt.content, examples);
        let question = message::user(&instructions, &self.document.name, position, &document);
        // If the endpoint does not support a response format, the prompt contains the schema.
        let schema = self.schema.as_ref().filter(|_| !self.model.options.json_schema).and_then(SchemaRevision::schema);
        let schema = schema.map(|schema| self.extended_schema().unwrap_or_else(|| schema.clone()));
        let text = schema.map_or(question.clone(), |schema| message::with_schema(&question, &schema));
        Question { text, style: Style::of(&document), window }
    }

    /// Calls the model, and once more with the violations if there are any.
    async fn answer(&self, question: Question, usage: &mut Usage) -> Result<Answer, RunError> {
        let Question { text, style, window } = question;
        let mut messages = vec![Message::user(text)];
        let mut violations = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let key = format!("{}.{window}.{attempt}", self.request.key);
            let reply = self.call_model(messages.clone(), key, attempt).await?;
            *usage = usage.plus(reply.usage);
            match self.parse_answer(&reply, style).await? {
                Ok(Parsed { data, originals, evidence }) => {
                    return Ok(Answer { data, originals, evidence, model_calls: attempt });
                }
                Err(found) => violations = found,
            }
            let text = fit(reply.text, self.budget().first_answer);
            messages.push(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() });
            messages.push(Message::user(message::correction(&violations)));
        }
        let subject = format!("The model {} answered {ATTEMPTS} times with data that", self.model.name);
        Err(mismatch(&subject, &violations).into())
    }

    /// Validates the merged data, because each window was validated alone.
    async fn check_merged(&self, data: &Value) -> Result<()> {
        rules::check_data("data", data)?;
        let Some(schema) = &self.schema else { return Ok(()) };
        let violations = rules::violations_of("schema", schema, data).await?;
        if violations.is_empty() { Ok(()) } else { Err(mismatch("The merged data of the windows", &violations)) }
    }
}

/// Returns the error for data of a model that violate the schema.
fn mismatch(subject: &str, violations: &[Violation]) -> Error {
    let mut error = rules::schema_mismatch("data", violations);
    error.message = format!("{subject} do not match the schema:\n{}", describe(violations));
    error.code = Code::FailedPrecondition;
    error
}

/// Adds the pages whose text contains the values, and the values of the structured invoice. Runs on a blocking thread,
/// because a window may be long.
async fn with_pages(
    answer: WindowAnswer,
    pages: Vec<(u32, String)>,
    structured_page: Option<u32>,
) -> Result<WindowAnswer> {
    let find = move || {
        let found = pages_of(&answer.data, &pages);
        let invoice: Vec<_> = pages.into_iter().filter(|(number, _)| Some(*number) == structured_page).collect();
        let structured = pages_of(&answer.data, &invoice).into_keys().collect();
        WindowAnswer { pages: found, structured, ..answer }
    };
    let found = tokio::task::spawn_blocking(find).await;
    found.map_err(|error| Error::internal(format!("the search for extracted values failed: {error}")))
}

/// Token budget of a model call.
struct Budget {
    /// Text of a window.
    text: u64,
    answer: u64,
    /// Part of the first answer that the correction call repeats.
    first_answer: u64,
    schema: u64,
    /// System message, instructions, and separators of the messages.
    overhead: u64,
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

    /// Divides the model's context.
    fn budget(&self) -> Budget {
        let context = u64::from(self.model.options.context_tokens);
        let output = u64::from(self.model.options.max_output_tokens);
        let (answer, first_answer) = (output.min(context / 2), output.min(context / 8));
        let schema = self.schema.as_ref().map_or(0, |schema| count_tokens(&schema.response_format.to_string()));
        let evidence = self.extended_schema().map(|_| {
            count_tokens(&model_evidence::member_schema().to_string()) + count_tokens(model_evidence::INSTRUCTIONS)
        });
        let schema = schema + evidence.unwrap_or_default();
        let overhead = count_tokens(message::SYSTEM)
            + count_tokens(&message::user(&self.prompt.content, &self.document.name, Some(LAST_POSITION), ""))
            + 4 * MESSAGE_OVERHEAD_TOKENS;
        let reserved = answer + first_answer + CORRECTION_TOKENS + schema + overhead;
        Budget { text: context.saturating_sub(reserved), answer, first_answer, schema, overhead }
    }

    /// Returns the schema of an answer with quotes and confidences. None: the model or the schema does not permit them.
    fn extended_schema(&self) -> Option<Value> {
        let schema = self.schema.as_ref().filter(|_| self.model.options.evidence)?.schema()?;
        model_evidence::extended(schema)
    }

    async fn call_model(&self, messages: Vec<Message>, key: String, attempt: u32) -> Result<ModelReply, RunError> {
        let budget = self.budget();
        // The correction may be longer than the estimate, because the length limit may have ended the first answer. It is
        // requested without quotes and confidences, so that these cannot fail an extraction.
        let extended = self.extended_schema().filter(|_| attempt == 1);
        let estimate = self.schema.as_ref().and_then(SchemaRevision::schema).and_then(answer_tokens);
        let estimate = estimate.filter(|_| attempt == 1 && extended.is_none());
        let answer = estimate.unwrap_or(u64::MAX).min(budget.answer);
        let format = self.schema.as_ref().and_then(response_format);
        let (system, format) = match (format, extended) {
            (Some(format), Some(schema)) => (
                format!("{} {}", message::SYSTEM, model_evidence::INSTRUCTIONS),
                Some(ResponseFormat { schema, ..format }),
            ),
            (format, _) => (message::SYSTEM.to_owned(), format),
        };
        let call = self.metered_call(key, count(&messages) + budget.schema, answer);
        let request = ModelRequest {
            system,
            response_format: format,
            max_output_tokens: u32::try_from(answer).ok(),
            temperature: Some(self.prompt.temperature.unwrap_or_default()),
            ..ModelRequest::new(self.request.principal.org.clone(), &self.model.name, messages)
        };
        metered::complete_metered(self.resources, call, request).await?.map_err(RunError::Model)
    }

    /// Returns the maximum price of the calls for a text: the first call and the correction.
    fn max_price(&self, budget: &Budget, text_tokens: u64) -> u64 {
        let input_tokens = text_tokens.saturating_add(budget.overhead).saturating_add(budget.schema);
        let call = self.metered_call(String::new(), input_tokens, budget.answer);
        self.resources.meter.max_price(&call).saturating_mul(u64::from(ATTEMPTS))
    }

    fn metered_call(&self, key: String, input_tokens: u64, max_output_tokens: u64) -> MeteredCall {
        MeteredCall {
            org: self.request.principal.org.clone(),
            user: self.request.principal.user.clone(),
            key,
            // The model calls of a job are a batch.
            operation: if self.request.steps.is_some() { "batch" } else { "extraction" },
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: Some(self.document.id.clone()),
            input_tokens,
            max_output_tokens,
        }
    }

    /// Parses, normalizes and validates an answer. The inner error lists the violations.
    async fn parse_answer(&self, reply: &ModelReply, style: Style) -> Result<Result<Parsed, Vec<Violation>>> {
        let invalid = |message: String| Ok(Err(vec![Violation { path: "#".to_owned(), message }]));
        let text = unfenced(&reply.text);
        let divided = self.extended_schema().and_then(|_| model_evidence::split(text));
        let is_cut = reply.finish == Some(FinishReason::Length);
        let too_long = || invalid("the answer reached the length limit; answer shorter".to_owned());
        if is_cut && divided.is_none() {
            return too_long();
        }
        let (text, evidence) = divided.map_or((Cow::from(text), ""), |(text, evidence)| (text.into(), evidence));
        let mut data = match json::read(&text) {
            Ok(data) => data,
            Err(refused) => return invalid(refused.to_string()),
        };
        if let Err(error) = rules::check_data("data", &data) {
            return invalid(error.message);
        }
        let Some(schema) = &self.schema else {
            let is_object = data.is_object();
            return if is_object {
                Ok(Ok(Parsed { data, ..Parsed::default() }))
            } else {
                invalid("must be a JSON object".to_owned())
            };
        };
        // The data of a cut answer are complete if the answer was cut in the member with the evidence, which should be the last
        // member.
        if is_cut && schema.schema().is_some_and(|schema| !model_evidence::has_all_properties(schema, &data)) {
            return too_long();
        }
        let originals = schema.schema().map(|schema| normalize(schema, &mut data, style)).unwrap_or_default();
        let violations = rules::violations_of("schema", schema, &data).await?;
        if !violations.is_empty() {
            return Ok(Err(violations));
        }
        let evidence = model_evidence::parse(evidence, &data);
        Ok(Ok(Parsed { data, originals, evidence }))
    }
}

/// A valid answer.
#[derive(Default)]
struct Parsed {
    data: Value,
    /// Original texts of normalized values by path.
    originals: BTreeMap<String, String>,
    evidence: Evidence,
}

fn response_format(schema: &SchemaRevision) -> Option<ResponseFormat> {
    let name = schema.response_format.get("json_schema")?.get("name")?.as_str()?.to_owned();
    Some(ResponseFormat { name, schema: schema.schema()?.clone(), strict: schema.strict })
}

/// Removes a code fence around the answer, which some models add in spite of the instructions.
pub fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

fn count(messages: &[Message]) -> u64 {
    let texts = messages.iter().map(|message| match message {
        Message::User { text, .. } | Message::Assistant { text, .. } => text,
        Message::Tool { content, .. } => content,
    });
    texts.map(|text| count_tokens(text) + MESSAGE_OVERHEAD_TOKENS).sum::<u64>() + count_tokens(message::SYSTEM)
}
