//! The routes of passages: searches, and answers to questions. No client of DocRouter calls them.

use std::collections::BTreeMap;

use folio_operations::retrieval::{ANSWER_PASSAGES_DEFAULT, Answer, AnswerCitation, Ask, Question, Search};
use folio_resources::fields;
use folio_tools::retrieval::{
    FILTER_COLLECTIONS_MAX, FILTER_DOCUMENTS_MAX, FoundPassage, FoundPassages, Highlight, PASSAGES_DEFAULT,
    PassageArea, PassageFilter, PassageQuery, PassageRank, SearchGap, SearchPart,
};
use folio_types::Timestamp;
use folio_types::budget::check_credit_budget;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::post;
use super::extract::{Client, Json};
use super::failure::Failure;
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<Search>(Level::Own, post(org_path!("/retrieval/search"), search)),
        route::<Ask>(Level::Own, post(org_path!("/retrieval/ask"), answer)),
    ]
}

/// Conditions on passages, all of which must hold.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct PassageFilterFields {
    /// Passages of any of these documents, at most 1,000. Null or empty: of all documents.
    document_ids: Option<Vec<String>>,
    /// Passages of documents with all of these tags.
    tag_ids: Option<Vec<String>>,
    /// Passages of documents with all of these values, compared exactly.
    metadata: Option<BTreeMap<String, String>>,
    /// Passages of documents that were uploaded at this time or later.
    #[schema(value_type = Option<String>, format = DateTime)]
    start_time: Option<Timestamp>,
    /// Passages of documents that were uploaded before this time.
    #[schema(value_type = Option<String>, format = DateTime)]
    end_time: Option<Timestamp>,
    /// Passages in any of these languages, as codes such as `de`. Null or empty: in all languages.
    languages: Option<Vec<String>>,
    /// Passages of the members of any of these collections, at most 20. Null or empty: of all documents.
    collection_ids: Option<Vec<String>>,
}

impl PassageFilterFields {
    fn parse(self) -> Result<PassageFilter, Failure> {
        let (documents, tags) = (self.document_ids.unwrap_or_default(), self.tag_ids.unwrap_or_default());
        let collections = self.collection_ids.unwrap_or_default();
        Ok(PassageFilter {
            document_ids: fields::ids("passage_filter.document_ids", &documents, FILTER_DOCUMENTS_MAX)?,
            tag_ids: fields::tags("passage_filter.tag_ids", &tags)?,
            metadata: self.metadata.unwrap_or_default(),
            start_time: self.start_time,
            end_time: self.end_time,
            languages: self.languages.unwrap_or_default(),
            collection_ids: fields::ids("passage_filter.collection_ids", &collections, FILTER_COLLECTIONS_MAX)?,
        })
    }
}

/// A search for passages.
#[derive(Debug, Deserialize, ToSchema)]
struct PassageSearch {
    /// Words, or a question, at most 4,000 characters. No character is an operator.
    query: String,
    /// Conditions on the passages.
    passage_filter: Option<PassageFilterFields>,
    /// Maximum number of passages, at most 50. Default: 10.
    limit: Option<u32>,
    /// True: the rerank model of the organization orders the best passages. Default: false.
    rerank: Option<bool>,
}

/// A question about documents.
#[derive(Debug, Deserialize, ToSchema)]
struct PassageQuestion {
    /// The question, at most 4,000 characters.
    question: String,
    /// Conditions on the passages that the model reads.
    passage_filter: Option<PassageFilterFields>,
    /// Maximum number of passages that the model reads, at most 20. Default: 8.
    passages: Option<u32>,
    /// True: the rerank model of the organization orders the best passages. Default: false.
    rerank: Option<bool>,
    /// The model. Default: the default model of the organization.
    model: Option<String>,
    /// Maximum credits of all model calls. Default: no bound.
    credit_budget: Option<u64>,
}

/// A rectangle on a page, in fractions of its width and height from the upper left corner.
#[derive(Debug, Serialize, ToSchema)]
struct PassageAreaBody {
    /// The number of the page, from 1.
    page: u32,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// The rank of a passage in one part of a search.
#[derive(Debug, Serialize, ToSchema)]
struct PassageRankBody {
    /// The position, from 1.
    rank: u32,
    /// BM25 in the lexical part, the cosine of the vectors in the dense part.
    score: f32,
}

/// A word that matches the query.
#[derive(Debug, Serialize, ToSchema)]
struct PassageHighlightBody {
    /// The index of the first character in the text of the passage.
    start: u32,
    /// The index after the last character.
    end: u32,
    /// The rectangle of the word; for a word in a table, of its row or of the table. Null: the position is unknown.
    area: Option<PassageAreaBody>,
}

/// A passage that a search found.
#[derive(Debug, Serialize, ToSchema)]
struct PassageBody {
    document_id: String,
    document_name: String,
    /// The position of the passage in the document, from 0.
    number: u32,
    text: String,
    /// The section that contains the passage.
    section_id: String,
    /// The titles from the top of the document down to the section.
    section_titles: Vec<String>,
    /// The page of the first character.
    page: u32,
    /// The code of the language. Null: unknown.
    language: Option<String>,
    /// The relevance if the passage was reranked, otherwise the fused score.
    score: f64,
    /// Null: not among the candidates of the part.
    lexical: Option<PassageRankBody>,
    /// Null: not among the candidates of the part.
    dense: Option<PassageRankBody>,
    /// The relevance by the rerank model. Null: the passage was not reranked.
    relevance: Option<f64>,
    highlights: Vec<PassageHighlightBody>,
    /// The rectangles around the words of the passage, one for each page.
    areas: Vec<PassageAreaBody>,
    /// Metadata of the document, the position of the passage, its images, and the documents to which its links refer.
    metadata_pairs: Vec<PassageMetadataBody>,
}

/// An entry of the metadata of a passage. A key may be repeated.
#[derive(Debug, Serialize, ToSchema)]
struct PassageMetadataBody {
    key: String,
    value: String,
}

/// The reason for which a part of a search was not used, or did not consider all passages.
#[derive(Debug, Serialize, ToSchema)]
struct SearchGapBody {
    /// The reason, such as `no_embedding_model`.
    reason: &'static str,
    /// The number of passages that were not considered. 0: unknown.
    passages: u64,
    /// The description for people.
    description: String,
}

/// The outcome of a part of a search.
#[derive(Debug, Serialize, ToSchema)]
struct SearchPartBody {
    /// True if the part ranked passages.
    used: bool,
    /// Empty: the part considered all passages.
    gaps: Vec<SearchGapBody>,
}

/// The passages that match a search.
#[derive(Debug, Serialize, ToSchema)]
struct PassageList {
    /// The passages, best first.
    passages: Vec<PassageBody>,
    lexical: SearchPartBody,
    dense: SearchPartBody,
    /// Null: the request requires no reranking.
    rerank: Option<SearchPartBody>,
    /// The number of indexed passages that are omitted, because their document was deleted or changed.
    stale_passages: u32,
    /// The charged credits.
    credits: u64,
}

/// A quote that supports an answer.
#[derive(Debug, Serialize, ToSchema)]
struct AnswerCitationBody {
    /// The number by which the answer refers to the citation, such as 1 for [1].
    number: u32,
    document_id: String,
    document_name: String,
    /// The position of the passage in the document, from 0.
    passage: u32,
    section_id: String,
    section_titles: Vec<String>,
    /// The page of the first character of the passage.
    page: u32,
    /// Words of the passage.
    quote: String,
    /// The rectangles around the words of the passage, one for each page.
    areas: Vec<PassageAreaBody>,
}

/// An answer to a question.
#[derive(Debug, Serialize, ToSchema)]
struct PassageAnswer {
    /// The answer, with the numbers of citations such as [1]. Null: the passages contain no answer that a citation supports.
    answer: Option<String>,
    citations: Vec<AnswerCitationBody>,
    /// The number of citations that were removed, because they do not occur in their passages.
    removed_citations: u32,
    /// The number of passages that the model read.
    passages: u32,
    /// Null: no model was called.
    model: Option<String>,
    lexical: SearchPartBody,
    dense: SearchPartBody,
    /// Null: the request requires no reranking.
    rerank: Option<SearchPartBody>,
    /// The charged credits of all model calls.
    credits: u64,
}

impl From<PassageArea> for PassageAreaBody {
    fn from(area: PassageArea) -> Self {
        let PassageArea { page, left, top, right, bottom } = area;
        Self { page, left, top, right, bottom }
    }
}

impl From<PassageRank> for PassageRankBody {
    fn from(PassageRank { rank, score }: PassageRank) -> Self {
        Self { rank, score }
    }
}

impl From<Highlight> for PassageHighlightBody {
    fn from(Highlight { start, end, area }: Highlight) -> Self {
        Self { start, end, area: area.map(Into::into) }
    }
}

impl From<(String, String)> for PassageMetadataBody {
    fn from((key, value): (String, String)) -> Self {
        Self { key, value }
    }
}

impl From<FoundPassage> for PassageBody {
    fn from(found: FoundPassage) -> Self {
        Self {
            document_id: found.document.to_string(),
            document_name: found.document_name,
            number: found.number,
            text: found.text,
            section_id: found.section_id,
            section_titles: found.section_titles,
            page: found.page,
            language: found.language,
            score: found.score,
            lexical: found.lexical.map(Into::into),
            dense: found.dense.map(Into::into),
            relevance: found.relevance,
            highlights: found.highlights.into_iter().map(Into::into).collect(),
            areas: found.areas.into_iter().map(Into::into).collect(),
            metadata_pairs: found.metadata_pairs.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&SearchGap> for SearchGapBody {
    fn from(gap: &SearchGap) -> Self {
        Self { reason: gap.name(), passages: gap.passages(), description: gap.to_string() }
    }
}

impl From<SearchPart> for SearchPartBody {
    fn from(part: SearchPart) -> Self {
        Self { used: part.is_used, gaps: part.gaps.iter().map(Into::into).collect() }
    }
}

impl From<FoundPassages> for PassageList {
    fn from(found: FoundPassages) -> Self {
        Self {
            passages: found.passages.into_iter().map(Into::into).collect(),
            lexical: found.lexical.into(),
            dense: found.dense.into(),
            rerank: found.rerank.map(Into::into),
            stale_passages: found.stale_passages,
            credits: found.usage.credits,
        }
    }
}

impl From<AnswerCitation> for AnswerCitationBody {
    fn from(citation: AnswerCitation) -> Self {
        Self {
            number: citation.number,
            document_id: citation.document.to_string(),
            document_name: citation.document_name,
            passage: citation.passage,
            section_id: citation.section_id,
            section_titles: citation.section_titles,
            page: citation.page,
            quote: citation.quote,
            areas: citation.areas.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Answer> for PassageAnswer {
    fn from(answer: Answer) -> Self {
        Self {
            answer: Some(answer.text).filter(|text| !text.is_empty()),
            citations: answer.citations.into_iter().map(Into::into).collect(),
            removed_citations: answer.removed_citations,
            passages: answer.passages,
            model: answer.model,
            lexical: answer.lexical.into(),
            dense: answer.dense.into(),
            rerank: answer.rerank.map(Into::into),
            credits: answer.usage.credits,
        }
    }
}

async fn search(client: Client, Json(body): Json<PassageSearch>) -> Reply<Json<PassageList>> {
    let query = PassageQuery {
        text: body.query,
        filter: body.passage_filter.unwrap_or_default().parse()?,
        limit: body.limit.unwrap_or(PASSAGES_DEFAULT),
        is_reranked: body.rerank.unwrap_or_default(),
    };
    Ok(Json(client.run(Search { query }).await?.into()))
}

async fn answer(client: Client, Json(body): Json<PassageQuestion>) -> Reply<Json<PassageAnswer>> {
    let question = Question {
        text: body.question,
        filter: body.passage_filter.unwrap_or_default().parse()?,
        passages: body.passages.unwrap_or(ANSWER_PASSAGES_DEFAULT),
        is_reranked: body.rerank.unwrap_or_default(),
        model: fields::optional_word("model", &body.model.unwrap_or_default())?,
        credit_budget: check_credit_budget(body.credit_budget)?,
    };
    let answer = client
        .run(Ask { question })
        .await
        .map_err(|failure| failure.when_model_failed("Error answering the question"))?;
    Ok(Json(answer.into()))
}
