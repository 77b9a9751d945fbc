//! Serves `RetrievalService`.

use folio_operations::retrieval::{ANSWER_PASSAGES_DEFAULT, Answer, AnswerCitation, Ask, Question, Search};
use folio_proto::{fields, time, v1};
use folio_resources::BoundingBox;
use folio_tools::retrieval::{
    FILTER_COLLECTIONS_MAX, FILTER_DOCUMENTS_MAX, FoundPassage, FoundPassages, Highlight, PASSAGES_DEFAULT,
    PassageArea, PassageFilter, PassageQuery, PassageRank, SearchGap, SearchPart,
};
use folio_types::Result;
use folio_types::budget::check_credit_budget;
use v1::retrieval_service_server::RetrievalService;

use super::Api;
use super::handler::{change, read};

#[tonic::async_trait]
impl RetrievalService for Api {
    read!(
        search,
        SearchRequest,
        SearchResponse,
        |request| Search {
            query: PassageQuery {
                text: request.query,
                filter: filter(request.passage_filter)?,
                limit: or_default(request.limit, PASSAGES_DEFAULT),
                is_reranked: request.rerank,
            },
        },
        |found: FoundPassages| v1::SearchResponse {
            passages: found.passages.into_iter().map(passage).collect(),
            lexical: Some(part(found.lexical)),
            dense: Some(part(found.dense)),
            rerank: found.rerank.map(part),
            stale_passages: found.stale_passages,
            usage: Some(found.usage.into()),
        }
    );

    change!(
        ask,
        AskRequest,
        AskResponse,
        |request| Ask {
            question: Question {
                text: request.question,
                filter: filter(request.passage_filter)?,
                passages: or_default(request.passages, ANSWER_PASSAGES_DEFAULT),
                is_reranked: request.rerank,
                model: fields::optional_word("model", &request.model)?,
                credit_budget: check_credit_budget(request.credit_budget)?,
            },
        },
        |answer: Answer| v1::AskResponse {
            answer: answer.text,
            citations: answer.citations.into_iter().map(citation).collect(),
            removed_citations: answer.removed_citations,
            passages: answer.passages,
            model: answer.model.unwrap_or_default(),
            lexical: Some(part(answer.lexical)),
            dense: Some(part(answer.dense)),
            rerank: answer.rerank.map(part),
            usage: Some(answer.usage.into()),
        }
    );
}

/// Returns a number of a request. 0: not set.
fn or_default(number: u32, default: u32) -> u32 {
    if number == 0 { default } else { number }
}

fn filter(filter: Option<v1::PassageFilter>) -> Result<PassageFilter> {
    let v1::PassageFilter { document_ids, tag_ids, metadata, start_time, end_time, languages, collection_ids } =
        filter.unwrap_or_default();
    Ok(PassageFilter {
        document_ids: fields::ids("passage_filter.document_ids", &document_ids, FILTER_DOCUMENTS_MAX)?,
        tag_ids: fields::tags("passage_filter.tag_ids", &tag_ids)?,
        metadata: metadata.into_iter().collect(),
        start_time: time::optional_from_proto("passage_filter.start_time", start_time.as_ref())?,
        end_time: time::optional_from_proto("passage_filter.end_time", end_time.as_ref())?,
        languages,
        collection_ids: fields::ids("passage_filter.collection_ids", &collection_ids, FILTER_COLLECTIONS_MAX)?,
    })
}

fn area(area: PassageArea) -> v1::PassageArea {
    let PassageArea { page, left, top, right, bottom } = area;
    v1::PassageArea { page, bounding_box: Some(BoundingBox { left, top, right, bottom }.into()) }
}

fn rank(rank: PassageRank) -> v1::PassageRank {
    v1::PassageRank { rank: rank.rank, score: rank.score }
}

fn highlight(highlight: Highlight) -> v1::PassageHighlight {
    v1::PassageHighlight { start: highlight.start, end: highlight.end, area: highlight.area.map(area) }
}

fn passage(found: FoundPassage) -> v1::FoundPassage {
    let pair = |(key, value): (String, String)| v1::PassageMetadata { key, value };
    v1::FoundPassage {
        document_id: found.document.to_string(),
        document_name: found.document_name,
        number: found.number,
        text: found.text,
        section_id: found.section_id,
        section_titles: found.section_titles,
        page: found.page,
        language: found.language.unwrap_or_default(),
        score: found.score,
        lexical: found.lexical.map(rank),
        dense: found.dense.map(rank),
        relevance: found.relevance,
        highlights: found.highlights.into_iter().map(highlight).collect(),
        areas: found.areas.into_iter().map(area).collect(),
        metadata_pairs: found.metadata_pairs.into_iter().map(pair).collect(),
    }
}

fn citation(citation: AnswerCitation) -> v1::AnswerCitation {
    v1::AnswerCitation {
        number: citation.number,
        document_id: citation.document.to_string(),
        document_name: citation.document_name,
        passage: citation.passage,
        section_id: citation.section_id,
        section_titles: citation.section_titles,
        page: citation.page,
        quote: citation.quote,
        areas: citation.areas.into_iter().map(area).collect(),
    }
}

fn part(part: SearchPart) -> v1::SearchPart {
    v1::SearchPart { used: part.is_used, gaps: part.gaps.iter().map(gap).collect() }
}

fn gap(gap: &SearchGap) -> v1::SearchGap {
    let reason = match gap {
        SearchGap::NoEmbeddingModel => v1::SearchGapReason::NoEmbeddingModel,
        SearchGap::NotEmbedded => v1::SearchGapReason::NotEmbedded,
        SearchGap::EmbeddingFailed(_) => v1::SearchGapReason::EmbeddingFailed,
        SearchGap::NoWords => v1::SearchGapReason::NoWords,
        SearchGap::IndexMissing => v1::SearchGapReason::IndexMissing,
        SearchGap::IndexRebuilding => v1::SearchGapReason::IndexRebuilding,
        SearchGap::IndexDamaged => v1::SearchGapReason::IndexDamaged,
        SearchGap::Memory(_) => v1::SearchGapReason::Memory,
        SearchGap::WithoutVector(_) => v1::SearchGapReason::WithoutVector,
        SearchGap::NoRerankModel => v1::SearchGapReason::NoRerankModel,
        SearchGap::RerankFailed(_) => v1::SearchGapReason::RerankFailed,
    };
    v1::SearchGap { reason: reason.into(), passages: gap.passages(), description: gap.to_string() }
}
