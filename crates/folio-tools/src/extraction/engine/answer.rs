//! The answer of the model for one window: the model calls and the check of their replies.

use std::borrow::Cow;
use std::collections::BTreeMap;

use folio_llm::schema::{Violation, describe};
use folio_llm::{MESSAGE_OVERHEAD_TOKENS, ModelReply, ModelRequest, ResponseFormat, count_tokens};
use folio_resources::SchemaRevision;
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::notation::Style;
use folio_types::{Code, Error, Result, json};
use serde_json::Value;

use super::super::answer_size::answer_tokens;
use super::super::model_evidence::{self, Evidence};
use super::super::normalize::normalize;
use super::super::{message, metered};
use super::{ATTEMPTS, Run, RunError};
use crate::document_text::fit;
use crate::rules;

/// The question of one window.
pub(super) struct Question {
    pub(super) text: String,
    /// Notation of numbers and dates in the window.
    pub(super) style: Style,
    /// Number of the window, from 1. Part of the ledger key.
    pub(super) window: usize,
}

/// A valid answer to a question.
pub(super) struct Answer {
    pub(super) data: Value,
    /// Original texts of normalized values by path.
    pub(super) originals: BTreeMap<String, String>,
    pub(super) evidence: Evidence,
    pub(super) model_calls: u32,
}

impl Run<'_> {
    /// Calls the model, and once more with the violations if there are any.
    pub(super) async fn answer(&self, question: Question, usage: &mut Usage) -> Result<Answer, RunError> {
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

/// Returns the error for data of a model that violate the schema.
pub(super) fn mismatch(subject: &str, violations: &[Violation]) -> Error {
    let mut error = rules::schema_mismatch("data", violations);
    error.message = format!("{subject} do not match the schema:\n{}", describe(violations));
    error.code = Code::FailedPrecondition;
    error
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
