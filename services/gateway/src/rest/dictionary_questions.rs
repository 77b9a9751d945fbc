//! The routes of questions about terms, and of the terms in documents. No client of DocRouter calls them.

use folio_operations::ListRequest;
use folio_operations::dictionary_questions::{
    AnswerDictionaryQuestion, DismissDictionaryQuestion, GetDictionaryQuestion, ListDictionaryQuestions,
};
use folio_operations::dictionary_review::{ProposeDictionaryEntries, ProposedEntry, ReviewDocumentTerms};
use folio_resources::{DictionaryQuestion, DictionaryQuestionId};
use folio_types::{DocumentId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Id, Json, Query};
use super::list::{Limit, Skip, conditions, page};
use super::reply::{Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const QUESTION: &str = org_path!("/dictionary/questions/{dictionary_question_id}");
const ANSWER: &str = org_path!("/dictionary/questions/{dictionary_question_id}/answer");
const DISMISS: &str = org_path!("/dictionary/questions/{dictionary_question_id}/dismiss");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListDictionaryQuestions>(Level::Own, get(org_path!("/dictionary/questions"), list)),
        route::<GetDictionaryQuestion>(Level::Own, get(QUESTION, find)),
        route::<AnswerDictionaryQuestion>(Level::Own, post(ANSWER, answer)),
        route::<DismissDictionaryQuestion>(Level::Own, post(DISMISS, dismiss)),
        route::<ProposeDictionaryEntries>(Level::Own, get(org_path!("/dictionary/proposals"), propose)),
        route::<ReviewDocumentTerms>(Level::Own, post(org_path!("/documents/{document_id}/terms"), review)),
    ]
}

/// A question about a term.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryQuestionBody {
    /// Identifies the question.
    id: String,
    /// The document that contains the term.
    document_id: String,
    /// The term as it is in the document.
    term: String,
    /// The number of occurrences in the document.
    occurrences: u64,
    /// Excerpts of the document around the first occurrences.
    contexts: Vec<String>,
    /// The meaning that a model inferred. Null: no model inferred one.
    guess: Option<String>,
    /// The confidence of the guess, from 0 to 1.
    confidence: Option<f64>,
    /// `open`, `answered` or `dismissed`.
    state: String,
    /// The user that answered or dismissed the question.
    decided_by: Option<String>,
    /// The time of the decision (RFC 3339).
    decided_at: Option<String>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<&DictionaryQuestion> for DictionaryQuestionBody {
    fn from(question: &DictionaryQuestion) -> Self {
        Self {
            id: question.id.to_string(),
            document_id: question.document.to_string(),
            term: question.term.clone(),
            occurrences: question.occurrences,
            contexts: question.contexts.clone(),
            guess: question.guess.as_ref().map(|guess| guess.expansion.clone()),
            confidence: question.guess.as_ref().map(|guess| guess.confidence),
            state: question.state.as_str().to_owned(),
            decided_by: question.decided_by.as_ref().map(ToString::to_string),
            decided_at: question.decided_at.as_ref().map(ToString::to_string),
            created_at: question.created_at,
        }
    }
}

/// The query parameters of a list of questions.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryQuestionQuery {
    /// Number of questions before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of questions of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// `open`, `answered` or `dismissed`.
    state: Option<String>,
}

/// A page of questions.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryQuestionList {
    /// The questions of the page, newest first.
    dictionary_questions: Vec<DictionaryQuestionBody>,
    /// Number of questions that match, exact up to 1,024.
    total_count: u64,
    /// Number of questions before the page.
    skip: u32,
}

/// The answer to a question.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryAnswer {
    /// The meaning in one line.
    expansion: String,
    /// A text that distinguishes the meaning from others of the term.
    disambiguation: Option<String>,
    /// Short texts such as a region. Null: an existing entry keeps its tags.
    tags: Option<Vec<String>>,
}

/// An answered question.
#[derive(Debug, Serialize, ToSchema)]
struct AnsweredDictionaryQuestion {
    /// The question.
    dictionary_question: DictionaryQuestionBody,
    /// Identifies the entry of the term.
    dictionary_entry_id: String,
}

/// The query parameters of proposed entries.
#[derive(Debug, Deserialize, ToSchema)]
struct DictionaryProposalQuery {
    /// The token of the previous response. Default: the oldest documents.
    page_token: Option<String>,
}

/// A meaning that texts state.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryProposal {
    /// The term.
    term: String,
    /// The meaning.
    expansion: String,
    /// The documents that state the meaning.
    document_ids: Vec<String>,
    /// The number of statements.
    count: usize,
}

impl From<ProposedEntry> for DictionaryProposal {
    fn from(entry: ProposedEntry) -> Self {
        Self {
            term: entry.term,
            expansion: entry.expansion,
            document_ids: entry.documents.iter().map(ToString::to_string).collect(),
            count: entry.count,
        }
    }
}

/// Meanings that the texts of some documents state.
#[derive(Debug, Serialize, ToSchema)]
struct DictionaryProposalList {
    /// The proposals, sorted by the number of documents that state them, the highest first.
    proposals: Vec<DictionaryProposal>,
    /// Number of documents that were read.
    document_count: usize,
    /// The token for the next documents. Empty: all documents were read.
    next_page_token: String,
}

/// Options of a review of the terms of a document.
#[derive(Debug, Deserialize, ToSchema)]
struct TermReviewOptions {
    /// True: no model is called.
    #[serde(default)]
    without_model: bool,
}

/// The abbreviations of a document by the origin of their meaning.
#[derive(Debug, Serialize, ToSchema)]
struct TermReviewBody {
    /// Number of terms that the dictionary contained.
    known: usize,
    /// Number of known terms whose meaning no person confirmed.
    unconfirmed: usize,
    /// Number of terms whose meaning a model inferred.
    inferred: usize,
    /// Number of terms without a meaning.
    unknown: usize,
    /// Number of questions that were created.
    questions: usize,
    /// True if the organization had too many open questions for further ones.
    too_many_questions: bool,
    /// The reason for which no model was called. Null: a model was called, or no term needed it.
    not_inferred_reason: Option<String>,
    /// True if the end of a long text was not searched.
    truncated: bool,
}

async fn list(client: Client, Query(query): Query<DictionaryQuestionQuery>) -> Reply<Json<DictionaryQuestionList>> {
    let request = ListRequest { filter: conditions(&[("state:", query.state.as_deref())]), ..ListRequest::default() };
    let page = page(query.skip, query.limit, request, |list| client.run(ListDictionaryQuestions { list })).await?;
    let dictionary_questions = page.rows.iter().map(Into::into).collect();
    Ok(Json(DictionaryQuestionList { dictionary_questions, total_count: page.total_count, skip: page.skip }))
}

async fn find(
    client: Client,
    Id(dictionary_question_id): Id<DictionaryQuestionId>,
) -> Reply<Versioned<DictionaryQuestionBody>> {
    Ok(Versioned::of(&client.run(GetDictionaryQuestion { dictionary_question_id }).await?))
}

async fn answer(
    client: Client,
    Id(dictionary_question_id): Id<DictionaryQuestionId>,
    Json(answer): Json<DictionaryAnswer>,
) -> Reply<Json<AnsweredDictionaryQuestion>> {
    let operation = AnswerDictionaryQuestion {
        dictionary_question_id,
        expansion: answer.expansion,
        disambiguation: answer.disambiguation.unwrap_or_default(),
        tags: answer.tags.unwrap_or_default(),
        etag: client.etag,
    };
    let answered = client.run(operation).await?;
    Ok(Json(AnsweredDictionaryQuestion {
        dictionary_question: (&answered.question).into(),
        dictionary_entry_id: answered.entry.id.to_string(),
    }))
}

async fn dismiss(
    client: Client,
    Id(dictionary_question_id): Id<DictionaryQuestionId>,
) -> Reply<Versioned<DictionaryQuestionBody>> {
    Ok(Versioned::of(&client.run(DismissDictionaryQuestion { dictionary_question_id, etag: client.etag }).await?))
}

async fn propose(client: Client, Query(query): Query<DictionaryProposalQuery>) -> Reply<Json<DictionaryProposalList>> {
    let list = ListRequest { page_token: query.page_token.unwrap_or_default(), ..ListRequest::default() };
    let found = client.run(ProposeDictionaryEntries { list }).await?;
    Ok(Json(DictionaryProposalList {
        proposals: found.proposals.into_iter().map(Into::into).collect(),
        document_count: found.documents,
        next_page_token: found.next_page_token,
    }))
}

async fn review(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Json(options): Json<TermReviewOptions>,
) -> Reply<Json<TermReviewBody>> {
    let report = client.run(ReviewDocumentTerms { document_id, without_model: options.without_model }).await?;
    Ok(Json(TermReviewBody {
        known: report.known,
        unconfirmed: report.unconfirmed,
        inferred: report.inferred,
        unknown: report.unknown,
        questions: report.questions,
        too_many_questions: report.has_too_many_questions,
        not_inferred_reason: report.not_inferred,
        truncated: report.is_truncated,
    }))
}
