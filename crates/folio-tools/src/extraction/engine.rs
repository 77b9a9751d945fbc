//! The extraction engine: runs a prompt on a document.

use folio_llm::schema::{Violation, describe};
use folio_llm::{
    Catalogue, MESSAGE_OVERHEAD_TOKENS, ModelError, ModelInfo, ModelReply, ModelRequest, ResponseFormat, count_tokens,
};
use folio_metering::MeteredCall;

use folio_resources::{Document, NewExtraction, Prompt, PromptRevision, Schema, SchemaRevision};
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::{Code, DocumentId, Error, Principal, PromptRevId, Reason, Result, SchemaRevId, json};
use serde_json::Value;

use super::answer_size::answer_tokens;
use super::{message, metered};
use crate::document_text::{self, fit};
use crate::rules;
use crate::tool::ToolResources;

/// Model calls per run: the first, and one correction with the violations.
const ATTEMPTS: u32 = 2;
/// Tokens of the context that are reserved for the violations of the first answer.
const CORRECTION_TOKENS: u64 = 1_500;
/// Maximum bytes per token. Bounds the text that is read before its tokens are counted.
const TOKEN_BYTES_MAX: u64 = 8;

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
    /// Prefix of the ledger keys of the model calls, unique per run. The attempt is appended.
    pub key: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Schema that the data match. None if the prompt has none.
    pub schema: Option<SchemaRevId>,
    /// Model that produced the data.
    pub model: String,
    pub data: Value,
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

/// Runs a prompt: calls the model with the schema as response format, validates the answer, and calls the model once
/// more with the violations if there are any. Every model call is metered.
///
/// # Errors
/// `NOT_FOUND` (document or prompt), `NO_TEXT`, `MODEL_NOT_AVAILABLE`, errors of the model endpoint, and
/// `SCHEMA_MISMATCH` if the second answer violates the schema too.
pub async fn run(resources: &ToolResources, request: Request) -> Result<Extracted> {
    let (mut job, candidates) = Job::load(resources, request).await?;
    // A run may be repeated in the same epoch (if its write was refused); a random part keeps the ledger keys unique.
    let key = job.request.key.clone();
    let last = candidates.len().saturating_sub(1);
    // Returned if every fallback is too small or too expensive.
    let mut requested_model_error = None;
    let mut usage = Usage::default();
    for (index, model) in candidates.into_iter().enumerate() {
        job.model = model;
        job.request.key = format!("{key}.{:08x}", resources.environment.random() >> 96);
        match job.extract(&mut usage).await {
            Err(RunError::Model(error)) if error.allows_fallback() && index < last => {
                tracing::warn!(document = %job.document.id, model = job.model.name, %error, "model failed; a fallback is used");
                requested_model_error.get_or_insert(error);
            }
            Err(RunError::TooSmall(_)) if index > 0 => {}
            Err(RunError::Other(error)) if index > 0 && error.reason == Reason::CreditExhausted => {}
            result => return result.map_err(Error::from),
        }
    }
    Err(requested_model_error.map_or_else(|| Error::internal("no model can run the extraction"), Error::from))
}

/// Failure of a run with one model.
enum RunError {
    Model(ModelError),
    /// The model's context is too small for the prompt.
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

impl Job<'_> {
    /// Runs the prompt with one model and adds its usage to `usage`.
    async fn extract(&self, usage: &mut Usage) -> Result<Extracted, RunError> {
        let mut messages = vec![Message::User { text: self.question().await? }];
        let mut violations = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let reply = self.call_model(messages.clone(), attempt).await?;
            *usage = usage.plus(reply.usage);
            match self.parse_answer(&reply).await? {
                Ok(data) => {
                    return Ok(Extracted {
                        document: self.document.id.clone(),
                        prompt: self.prompt.revid.clone(),
                        schema: self.schema.as_ref().map(|schema| schema.revid.clone()),
                        model: self.model.name.clone(),
                        data,
                        usage: *usage,
                    });
                }
                Err(found) => violations = found,
            }
            let text = fit(reply.text, self.budget().first_answer);
            messages.push(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() });
            messages.push(Message::User { text: message::correction(&violations) });
        }
        let mut error = rules::schema_mismatch("data", &violations);
        error.message = format!(
            "The model {} answered {ATTEMPTS} times with data that do not match the schema:\n{}",
            self.model.name,
            describe(&violations)
        );
        error.code = Code::FailedPrecondition;
        Err(error.into())
    }
}

/// Token budget of a model call.
struct Budget {
    text: u64,
    answer: u64,
    /// Part of the first answer that the correction call repeats.
    first_answer: u64,
    schema: u64,
}

/// A run with its loaded document, prompt, schema and model.
struct Job<'a> {
    resources: &'a ToolResources,
    request: Request,
    document: Document,
    prompt: PromptRevision,
    schema: Option<SchemaRevision>,
    model: ModelInfo,
}

impl<'a> Job<'a> {
    /// Loads a run. Also returns the models to try, the requested one first.
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
        let candidates =
            models.candidates(model, |other| other.options.prompts && (other.options.json_schema || !strict));
        let model = model.clone();
        Ok((Self { resources, request, document, prompt, schema, model }, candidates))
    }

    /// Divides the model's context.
    fn budget(&self) -> Budget {
        let context = u64::from(self.model.options.context_tokens);
        let output = u64::from(self.model.options.max_output_tokens);
        let (answer, first_answer) = (output.min(context / 2), output.min(context / 8));
        let schema = self.schema.as_ref().map_or(0, |schema| count_tokens(&schema.response_format.to_string()));
        let overhead = count_tokens(message::SYSTEM)
            + count_tokens(&message::user(&self.prompt.content, &self.document.name, ""))
            + 4 * MESSAGE_OVERHEAD_TOKENS;
        let reserved = answer + first_answer + CORRECTION_TOKENS + schema + overhead;
        Budget { text: context.saturating_sub(reserved), answer, first_answer, schema }
    }

    /// Returns the user message. The text is cut so that the context also has space for the correction call.
    async fn question(&self) -> Result<String, RunError> {
        let text_tokens = self.budget().text;
        if text_tokens == 0 {
            let message = format!("the context of model {} is too small for this prompt", self.model.name);
            return Err(RunError::TooSmall(Error::precondition(Reason::TooLarge, message)));
        }
        let (stores, org) = (&self.resources.stores, &self.request.principal.org);
        let document = &self.document;
        let bytes = usize::try_from(text_tokens * TOKEN_BYTES_MAX).unwrap_or(usize::MAX);
        let read = document_text::read(stores, org, &document.id, 1, document.pages, bytes).await?;
        let question = message::user(&self.prompt.content, &document.name, &fit(read.text, text_tokens));
        // If the endpoint does not support a response format, the prompt contains the schema.
        let schema = self.schema.as_ref().filter(|_| !self.model.options.json_schema).and_then(SchemaRevision::schema);
        Ok(schema.map_or(question.clone(), |schema| message::with_schema(&question, schema)))
    }

    async fn call_model(&self, messages: Vec<Message>, attempt: u32) -> Result<ModelReply, RunError> {
        let budget = self.budget();
        // The correction may be longer than the estimate, because the length limit may have ended the first answer.
        let estimate = self.schema.as_ref().and_then(SchemaRevision::schema).and_then(answer_tokens);
        let answer = estimate.filter(|_| attempt == 1).unwrap_or(u64::MAX).min(budget.answer);
        let call = MeteredCall {
            org: self.request.principal.org.clone(),
            user: self.request.principal.user.clone(),
            key: format!("{}.{attempt}", self.request.key),
            operation: "extraction",
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: Some(self.document.id.clone()),
            input_tokens: count(&messages) + budget.schema,
            max_output_tokens: answer,
        };
        let request = ModelRequest {
            system: message::SYSTEM.to_owned(),
            response_format: self.schema.as_ref().and_then(response_format),
            max_output_tokens: u32::try_from(answer).ok(),
            temperature: Some(self.prompt.temperature.unwrap_or_default()),
            ..ModelRequest::new(self.request.principal.org.clone(), &self.model.name, messages)
        };
        metered::complete_metered(self.resources, call, request).await?.map_err(RunError::Model)
    }

    /// Parses and validates an answer. The inner error lists the violations.
    async fn parse_answer(&self, reply: &ModelReply) -> Result<Result<Value, Vec<Violation>>> {
        let invalid = |message: String| Ok(Err(vec![Violation { path: "#".to_owned(), message }]));
        if reply.finish == Some(FinishReason::Length) {
            return invalid("the answer reached the length limit; answer shorter".to_owned());
        }
        let data = match json::read(unfenced(&reply.text)) {
            Ok(data) => data,
            Err(refused) => return invalid(refused.to_string()),
        };
        if let Err(error) = rules::check_data("data", &data) {
            return invalid(error.message);
        }
        let Some(schema) = &self.schema else {
            return if data.is_object() { Ok(Ok(data)) } else { invalid("must be a JSON object".to_owned()) };
        };
        let violations = rules::violations_of("schema", schema, &data).await?;
        Ok(if violations.is_empty() { Ok(data) } else { Err(violations) })
    }
}

fn response_format(schema: &SchemaRevision) -> Option<ResponseFormat> {
    let name = schema.response_format.get("json_schema")?.get("name")?.as_str()?.to_owned();
    Some(ResponseFormat { name, schema: schema.schema()?.clone(), strict: schema.strict })
}

/// Removes a code fence around the answer, which some models add in spite of the instructions.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

fn count(messages: &[Message]) -> u64 {
    let texts = messages.iter().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } => text,
        Message::Tool { content, .. } => content,
    });
    texts.map(|text| count_tokens(text) + MESSAGE_OVERHEAD_TOKENS).sum::<u64>() + count_tokens(message::SYSTEM)
}
