//! Running a prompt over a document.

use folio_llm::schema::{Violation, describe};
use folio_llm::{
    Catalogue, MESSAGE_OVERHEAD_TOKENS, ModelError, ModelInfo, ModelReply, ModelRequest, Progress, ResponseFormat,
    count_tokens,
};
use folio_metering::MeteredCall;
use folio_storage::NewExtraction;
use folio_types::document::Document;
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::prompt::PromptRevision;
use folio_types::schema::SchemaRevision;
use folio_types::{Code, DocumentId, Error, Principal, PromptRevId, Reason, Result, SchemaRevId, json};
use serde_json::Value;

use super::{message, metered};
use crate::document_text::{self, fit};
use crate::rules;
use crate::tool::ToolResources;

/// Times that a model is asked: once, and once more with what was wrong.
const ATTEMPTS: u32 = 2;
/// Tokens kept free of the model's context for what is wrong with a first answer.
const CORRECTION_TOKENS: u64 = 1_500;
/// Bytes that a token stands for at most: so much text is read before its tokens are counted.
const TOKEN_BYTES_MAX: u64 = 8;

/// What is to be extracted.
#[derive(Debug, Clone)]
pub struct Request {
    /// On whose behalf.
    pub principal: Principal,
    /// The document that is read.
    pub document: DocumentId,
    /// The prompt that is run.
    pub prompt: PromptRevId,
    /// The model that the caller asks for, before the prompt's.
    pub model: Option<String>,
    /// The model where neither the caller nor the prompt names one (a turn's); else the default.
    pub fallback_model: Option<String>,
    /// What the keys of the model calls begin with: one of its kind for each run; the attempt is added.
    pub key: String,
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The document that was read.
    pub document: DocumentId,
    /// The prompt that was run.
    pub prompt: PromptRevId,
    /// The schema that the data matches.
    pub schema: Option<SchemaRevId>,
    /// The model that was asked.
    pub model: String,
    /// The data.
    pub data: Value,
    /// The sum over the model calls that were answered, also those of a model that another one stood in for later.
    pub usage: Usage,
}

impl Extracted {
    /// The extraction as it is stored.
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

/// The model of a run: the caller's, else the prompt's, both of which must be offered to prompts; else the fallback
/// where it is, else the default. Error: `MODEL_NOT_AVAILABLE`.
pub(super) fn model<'a>(
    models: &'a Catalogue,
    asked: Option<&str>,
    of_prompt: Option<&str>,
    fallback: Option<&str>,
) -> Result<&'a ModelInfo> {
    if let Some(name) = asked.or(of_prompt) {
        return models.for_prompts(Some(name));
    }
    match fallback.map(|name| models.for_prompts(Some(name))) {
        Some(Ok(info)) => Ok(info),
        _ => models.for_prompts(None),
    }
}

/// Runs a prompt: asks the model with the schema as response format, checks the answer, asks once more with what is
/// wrong, and then reports. Every model call has its permit and is settled.
///
/// # Errors
/// `NOT_FOUND` (document or prompt), `NO_TEXT`, `MODEL_NOT_AVAILABLE`, those of the model endpoint, and
/// `SCHEMA_MISMATCH` where the second answer does not match either.
pub async fn run(resources: &ToolResources, request: Request) -> Result<Extracted> {
    let (mut job, answering) = Job::load(resources, request).await?;
    // A run may be repeated in the same epoch (its write was refused): its calls are calls of their own.
    let key = job.request.key.clone();
    let last = answering.len().saturating_sub(1);
    // Why the model that is meant does not answer: told where the ones that stand in are too small or too dear.
    let mut first = None;
    let mut usage = Usage::default();
    for (place, model) in answering.into_iter().enumerate() {
        job.model = model;
        job.request.key = format!("{key}.{:08x}", resources.environment.random() >> 96);
        match job.extract(resources, &mut usage).await {
            Err(Ended::Model(error)) if error.falls_back() && place < last => {
                tracing::warn!(document = %job.document.id, model = job.model.name, %error, "another model is asked");
                first.get_or_insert(error);
            }
            Err(Ended::TooSmall(_)) if place > 0 => {}
            Err(Ended::Other(error)) if place > 0 && error.reason == Reason::SpuExhausted => {}
            ended => return ended.map_err(Error::from),
        }
    }
    Err(first.map_or_else(|| Error::internal("an extraction has no model"), Error::from))
}

/// Why a run gave nothing.
enum Ended {
    /// The model did not answer.
    Model(ModelError),
    /// The model's context does not hold the prompt.
    TooSmall(Error),
    /// Anything else.
    Other(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Model(error) => error.into(),
            Ended::TooSmall(error) | Ended::Other(error) => error,
        }
    }
}

impl Job {
    /// Asks one model. `usage`: that of the run so far.
    async fn extract(&self, resources: &ToolResources, usage: &mut Usage) -> Result<Extracted, Ended> {
        let mut messages = vec![Message::User { text: self.question(resources).await? }];
        let mut violations = Vec::new();
        for attempt in 1..=ATTEMPTS {
            let reply = self.ask(resources, messages.clone(), attempt).await?;
            *usage = usage.plus(reply.usage);
            match self.read(&reply).await? {
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
            let text = fit(reply.text, self.budget().again);
            messages.push(Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() });
            messages.push(Message::User { text: message::correction(&violations) });
        }
        let mut error = rules::schema_mismatch("data", &violations);
        error.message = format!(
            "The model {} was asked {ATTEMPTS} times, and its answer does not match the schema:\n{}",
            self.model.name,
            describe(&violations)
        );
        error.code = Code::FailedPrecondition;
        Err(error.into())
    }
}

/// Tokens of the parts of a call.
struct Budget {
    /// Of the document.
    text: u64,
    /// Of the answer at most.
    answer: u64,
    /// Of a first answer in a second question.
    again: u64,
    /// Of the schema.
    schema: u64,
}

/// A run with all that it needs.
struct Job {
    request: Request,
    document: Document,
    prompt: PromptRevision,
    schema: Option<SchemaRevision>,
    model: ModelInfo,
}

impl Job {
    /// The run, and the models that may answer, the one that is asked for first.
    async fn load(resources: &ToolResources, request: Request) -> Result<(Self, Vec<ModelInfo>)> {
        let (stores, org) = (&resources.stores, &request.principal.org);
        let prompt = stores.prompts.revision(org, &request.prompt).await?;
        let prompt = prompt.ok_or_else(|| Error::not_found("prompt revision", &request.prompt))?;
        let document = stores.documents.get(org, &request.document).await?;
        let document = document.ok_or_else(|| Error::not_found("document", &request.document))?;
        document_text::check_ready(&document)?;
        let schema = match &prompt.schema {
            Some(revid) => {
                let found = stores.schemas.revision(org, revid).await?;
                Some(found.ok_or_else(|| Error::not_found("schema revision", revid))?)
            }
            None => None,
        };
        let (asked, fallback) = (request.model.as_deref(), request.fallback_model.as_deref());
        let models = resources.models.catalogue(org).await?;
        let model = model(&models, asked, prompt.model.as_deref(), fallback)?;
        let strict = schema.is_some() && model.json_schema;
        let answering = models.answering(model, |other| other.prompts && (other.json_schema || !strict));
        let model = model.clone();
        Ok((Self { request, document, prompt, schema, model }, answering))
    }

    /// How the model's context is shared out.
    fn budget(&self) -> Budget {
        let context = u64::from(self.model.context_tokens);
        let output = u64::from(self.model.max_output_tokens);
        let (answer, again) = (output.min(context / 2), output.min(context / 8));
        let schema = self.schema.as_ref().map_or(0, |schema| count_tokens(&schema.response_format.to_string()));
        let around = count_tokens(message::SYSTEM)
            + count_tokens(&message::user(&self.prompt.content, &self.document.name, ""))
            + 4 * MESSAGE_OVERHEAD_TOKENS;
        let taken = answer + again + CORRECTION_TOKENS + schema + around;
        Budget { text: context.saturating_sub(taken), answer, again, schema }
    }

    /// The user message, with as much of the text as the model's context holds beside a second attempt.
    async fn question(&self, resources: &ToolResources) -> Result<String, Ended> {
        let room = self.budget().text;
        if room == 0 {
            let message = format!("the context of model {} is too small for this prompt", self.model.name);
            return Err(Ended::TooSmall(Error::precondition(Reason::TooLarge, message)));
        }
        let (stores, org) = (&resources.stores, &self.request.principal.org);
        let document = &self.document;
        let bytes = usize::try_from(room * TOKEN_BYTES_MAX).unwrap_or(usize::MAX);
        let read = document_text::read(stores, org, &document.id, 1, document.pages, bytes).await?;
        let question = message::user(&self.prompt.content, &document.name, &fit(read.text, room));
        // Who cannot be held to the schema by its endpoint is told it.
        let told = self.schema.as_ref().filter(|_| !self.model.json_schema).and_then(SchemaRevision::schema);
        Ok(told.map_or(question.clone(), |schema| message::with_schema(&question, schema)))
    }

    async fn ask(&self, resources: &ToolResources, messages: Vec<Message>, attempt: u32) -> Result<ModelReply, Ended> {
        let budget = self.budget();
        let call = MeteredCall {
            org: self.request.principal.org.clone(),
            user: self.request.principal.user.clone(),
            key: format!("{}.{attempt}", self.request.key),
            operation: "extraction",
            model: self.model.name.clone(),
            prices: self.model.prices(),
            document: Some(self.document.id.clone()),
            input_tokens: count(&messages) + budget.schema,
            max_output_tokens: budget.answer,
        };
        let request = ModelRequest {
            org: self.request.principal.org.clone(),
            model: self.model.name.clone(),
            system: message::SYSTEM.to_owned(),
            messages,
            tools: folio_llm::Tools::default(),
            response_format: self.schema.as_ref().and_then(response_format),
            thinking: false,
            max_output_tokens: u32::try_from(budget.answer).ok(),
            progress: Progress::default(),
        };
        metered::complete(resources, call, request).await?.map_err(Ended::Model)
    }

    /// The data of an answer, or what is wrong with it.
    async fn read(&self, reply: &ModelReply) -> Result<Result<Value, Vec<Violation>>> {
        let wrong = |message: String| Ok(Err(vec![Violation { path: "#".to_owned(), message }]));
        if reply.finish == Some(FinishReason::Length) {
            return wrong("the answer was cut off at its length limit; answer shorter".to_owned());
        }
        let data = match json::read(unfenced(&reply.text)) {
            Ok(data) => data,
            Err(refused) => return wrong(refused.to_string()),
        };
        if let Err(error) = rules::check_data("data", &data) {
            return wrong(error.message);
        }
        let Some(schema) = &self.schema else {
            return if data.is_object() { Ok(Ok(data)) } else { wrong("must be a JSON object".to_owned()) };
        };
        let violations = rules::violations_of("schema", schema, &data).await?;
        Ok(if violations.is_empty() { Ok(data) } else { Err(violations) })
    }
}

fn response_format(schema: &SchemaRevision) -> Option<ResponseFormat> {
    let name = schema.response_format.get("json_schema")?.get("name")?.as_str()?.to_owned();
    Some(ResponseFormat { name, schema: schema.schema()?.clone(), strict: schema.strict })
}

/// The JSON of an answer that stands in a code fence all the same.
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
