//! Answers to questions from the passages of an organization.
//!
//! | step | bound |
//! |---|---|
//! | search the passages | as any search; at most [`ANSWER_PASSAGES_MAX`] |
//! | one model call with the passages as data between marks | [`PASSAGE_TOKENS`] of passages, [`ANSWER_TOKENS`] of the answer |
//! | check each citation: its quote must occur in the passage | unsupported citations are removed and counted |
//!
//! If no passage is found, no model is called. An answer that no citation supports is not returned.

mod checked;
mod prompt;

use folio_llm::{MESSAGE_OVERHEAD_TOKENS, ModelInfo, ModelReply, ModelRequest, ResponseFormat, count_tokens};
use folio_metering::{BudgetScope, MeteredCall};
use folio_tools::ToolResources;
use folio_tools::extraction::complete_metered;
use folio_tools::retrieval::{
    FoundPassage, FoundPassages, PassageArea, PassageFilter, PassageQuery, Retriever, SearchPart,
};
use folio_types::message::{FinishReason, Message, Usage};
use folio_types::{DocumentId, Error, Principal, Reason, Result, Temperature};
use serde::{Deserialize, Serialize};

use checked::{Checked, check, parse};
use prompt::Sent;

/// The operation of answers in the usage of an organization.
pub const ASK_OPERATION: &str = "ask";
/// Passages that a model reads for an answer, if the request states no number.
// proto: AskRequest.passages "Default: {}."
pub const ANSWER_PASSAGES_DEFAULT: u32 = 8;
/// Maximum passages that a model reads for an answer.
// proto: AskRequest.passages "at most {}."
pub const ANSWER_PASSAGES_MAX: u32 = 20;
/// Maximum tokens of the passages that a model reads.
const PASSAGE_TOKENS: u64 = 12_000;
/// Minimum tokens of the passages. A model with a smaller context cannot answer.
const PASSAGE_TOKENS_MIN: u64 = 256;
/// Maximum tokens of an answer with its citations.
const ANSWER_TOKENS: u32 = 2_000;

/// A question about the documents of an organization.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Question {
    pub text: String,
    pub filter: PassageFilter,
    /// Maximum passages that the model reads: 1 to [`ANSWER_PASSAGES_MAX`].
    pub passages: u32,
    /// True: the rerank model of the organization orders the passages.
    pub is_reranked: bool,
    /// None: the default model of the organization.
    pub model: Option<String>,
    /// Maximum credits of all model calls. None: no bound of its own.
    pub credit_budget: Option<u64>,
}

/// A quote that supports an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerCitation {
    /// The number in the text of the answer, such as `[1]`. Several citations may have the same number.
    pub number: u32,
    pub document: DocumentId,
    pub document_name: String,
    /// Position of the passage in the document, from 0.
    pub passage: u32,
    pub section_id: String,
    pub section_titles: Vec<String>,
    /// Page of the first character of the passage.
    pub page: u32,
    /// Words of the passage.
    pub quote: String,
    /// The rectangles around the words of the passage, one for each page. Empty: the positions are unknown.
    pub areas: Vec<PassageArea>,
}

/// An answer from passages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The text, with numbers of citations such as `[1]`. Empty: the passages contain no answer.
    pub text: String,
    /// At least one citation if the text is not empty.
    pub citations: Vec<AnswerCitation>,
    /// Number of citations that were removed, because their quotes do not occur in their passages.
    pub removed_citations: u32,
    /// Number of passages that the model read.
    pub passages: u32,
    /// The model. None: no passage was found, so that no model was called.
    pub model: Option<String>,
    /// The outcomes of the parts of the search.
    pub lexical: SearchPart,
    pub dense: SearchPart,
    pub rerank: Option<SearchPart>,
    /// The usage of all model calls with the charged credits.
    pub usage: Usage,
}

/// Answers a question by one model call over the passages that match it best.
///
/// # Errors
/// `INVALID_FIELD` if the question exceeds a bound, `MODEL_NOT_AVAILABLE`, `CONTEXT_TOO_SMALL`, those of the search, of metering
/// and of the model. `ANSWER_MISMATCH` if the answer of the model is malformed or reached the length limit.
pub async fn ask(
    retriever: &dyn Retriever,
    resources: &ToolResources,
    principal: &Principal,
    question: Question,
) -> Result<Answer> {
    let Question { text, filter, passages, is_reranked, model, credit_budget } = question;
    if !(1..=ANSWER_PASSAGES_MAX).contains(&passages) {
        return Err(Error::invalid_field("passages", format!("must be 1 to {ANSWER_PASSAGES_MAX}")));
    }
    let query = PassageQuery { text, filter, limit: passages, is_reranked };
    query.check("question")?;
    let catalogue = resources.models.catalogue(&principal.org).await?;
    let model = catalogue.for_chat(model.as_deref())?;
    let resources = match credit_budget {
        Some(credits) => resources.clone().paid_from(BudgetScope::of_request(credits)),
        None => resources.clone(),
    };
    let found = retriever.search(&resources, principal, &query).await?;
    let FoundPassages { passages, lexical, dense, rerank, usage, .. } = found;
    let unanswered = Answer { lexical, dense, rerank, usage, ..Answer::default() };
    if passages.is_empty() {
        return Ok(unanswered);
    }
    let tokens = passage_tokens(model, &query.text)?;
    let sent = prompt::write(&query.text, &passages, tokens);
    if sent.texts.is_empty() {
        return Err(too_small(model, tokens));
    }
    let (count, reply) = call(&resources, principal, model, &sent).await?;
    let answer = Answer {
        usage: unanswered.usage.plus(reply.usage),
        passages: count,
        model: Some(model.name.clone()),
        ..unanswered
    };
    let malformed = || {
        let message =
            format!("the answer of the model {} is no complete JSON object with answer and citations", model.name);
        Error::precondition(Reason::AnswerMismatch, message)
    };
    let raw = match reply.finish {
        Some(FinishReason::Length) => None,
        _ => parse(&reply.text),
    };
    let texts = sent.texts;
    // A hostile answer may contain many quotes.
    let raw = raw.ok_or_else(malformed)?;
    let checked = tokio::task::spawn_blocking(move || check(raw, &texts)).await;
    let Checked { text, citations, removed } =
        checked.map_err(|error| Error::internal(format!("the check of citations failed: {error}")))?;
    let cited = citations.into_iter().filter_map(|(number, quote)| {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Some(citation(number, quote, passages.get(index)?))
    });
    Ok(Answer { text, citations: cited.collect(), removed_citations: removed, ..answer })
}

fn citation(number: u32, quote: String, passage: &FoundPassage) -> AnswerCitation {
    AnswerCitation {
        number,
        document: passage.document.clone(),
        document_name: passage.document_name.clone(),
        passage: passage.number,
        section_id: passage.section_id.clone(),
        section_titles: passage.section_titles.clone(),
        page: passage.page,
        quote,
        areas: passage.areas.clone(),
    }
}

/// Returns the tokens of an answer, and of all other parts of a call except the passages.
fn reserved(model: &ModelInfo, question: &str) -> (u32, u64) {
    let output = ANSWER_TOKENS.min(model.options.max_output_tokens);
    let schema = prompt::schema().to_string();
    let parts = [prompt::SYSTEM, question, schema.as_str()].map(count_tokens);
    (output, parts.into_iter().fold(2 * MESSAGE_OVERHEAD_TOKENS, u64::saturating_add))
}

/// Returns the maximum tokens of the passages.
///
/// # Errors
/// `CONTEXT_TOO_SMALL`.
fn passage_tokens(model: &ModelInfo, question: &str) -> Result<u64> {
    let (output, prompt) = reserved(model, question);
    let context = u64::from(model.options.context_tokens);
    let left = context.saturating_sub(prompt).saturating_sub(output.into());
    if left < PASSAGE_TOKENS_MIN { Err(too_small(model, left)) } else { Ok(left.min(PASSAGE_TOKENS)) }
}

/// `left`: tokens for passages.
fn too_small(model: &ModelInfo, left: u64) -> Error {
    let message = format!(
        "the question and its answer leave {left} of the {} tokens of the model {} for passages; use a model with a larger context",
        model.options.context_tokens, model.name
    );
    Error::precondition(Reason::ContextTooSmall, message)
}

/// Makes the model call. Also returns the number of passages that the model reads.
async fn call(
    resources: &ToolResources,
    principal: &Principal,
    model: &ModelInfo,
    sent: &Sent,
) -> Result<(u32, ModelReply)> {
    let (output, _) = reserved(model, "");
    let call = MeteredCall {
        org: principal.org.clone(),
        user: principal.user.clone(),
        key: format!("ask.{:032x}", resources.environment.random()),
        operation: ASK_OPERATION,
        model: model.name.clone(),
        prices: model.prices(),
        document: None,
        input_tokens: reserved(model, &sent.message).1,
        max_output_tokens: output.into(),
    };
    let format = || ResponseFormat { name: "answer".to_owned(), schema: prompt::schema(), strict: true };
    let request = ModelRequest {
        system: prompt::SYSTEM.to_owned(),
        response_format: model.options.json_schema.then(format),
        max_output_tokens: Some(output),
        temperature: Some(Temperature::default()),
        ..ModelRequest::new(principal.org.clone(), &model.name, vec![Message::user(sent.message.clone())])
    };
    let reply = complete_metered(resources, call, request).await??;
    Ok((u32::try_from(sent.texts.len()).unwrap_or(u32::MAX), reply))
}
