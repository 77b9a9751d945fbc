//! Reranking (`rerank`): the request and the answer that Jina, Cohere, vLLM and llama.cpp have in common.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::attempt::{Attempt, Attempts};
use super::embeddings::{ReportedUsage, reported_error, usage_of};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::openai::{self, Bounds};
use super::{Entry, traced};
use crate::batches::{RERANK_DOCUMENTS_MAX, rerank_tokens};
use crate::model::{ModelError, RankedDocument, RerankRequest, Reranking, TimeLimit};
use crate::stream::StreamError;

/// Maximum length of the answer apart from the documents, in bytes.
const BODY_BYTES: usize = 256 * 1024;
/// Maximum length of a byte of a document in an answer that repeats the documents, in bytes.
const ESCAPED_BYTES: usize = 6;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    top_n: usize,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Rated>,
    #[serde(default)]
    usage: Option<ReportedUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Rated {
    index: usize,
    relevance_score: f64,
}

pub(super) async fn rerank(entry: &Entry, request: &RerankRequest) -> Result<Reranking, ModelError> {
    traced::retrieval("rerank", entry, call(entry, request), |answer: &Reranking| answer.usage).await
}

async fn call(entry: &Entry, request: &RerankRequest) -> Result<Reranking, ModelError> {
    let expected = Expected { count: request.documents.len(), top_n: request.top_n.min(request.documents.len()) };
    if expected.top_n == 0 {
        return Ok(Reranking::default());
    }
    if expected.count > RERANK_DOCUMENTS_MAX {
        return Err(ModelError::Failed(format!("a rerank request has at most {RERANK_DOCUMENTS_MAX} documents")));
    }
    let endpoint = &entry.endpoint;
    let call_end = Instant::now() + endpoint.timeouts.call_seconds;
    let (query, documents) = (request.query.as_str(), request.documents.as_slice());
    let body = Body { model: entry.info.upstream(), query, documents, top_n: expected.top_n };
    let _permit = endpoint.permit(&request.org, call_end).await?;
    let mut attempts = Attempts::new(endpoint, call_end, request.progress.clone());
    let attempt = |attempt| send(endpoint, attempt, (&request.call_id, &body), expected, call_end);
    let (results, reported) = attempts.run(attempt).await?;
    Ok(Reranking { results, usage: usage_of(reported, || rerank_tokens(query, documents)) })
}

async fn send(
    endpoint: &Arc<Endpoint>,
    mut attempt: Attempt,
    (call_id, body): (&str, &Body<'_>),
    expected: Expected,
    end: Instant,
) -> Result<(Vec<RankedDocument>, Option<ReportedUsage>), Failure> {
    let documents = body.documents.iter().map(String::len).fold(0, usize::saturating_add);
    let body_bytes = BODY_BYTES.saturating_add(documents.saturating_mul(ESCAPED_BYTES));
    let bounds = Bounds { end, limit: TimeLimit::WholeCall, body_bytes };
    let answer = openai::post(endpoint, call_id, ("rerank", body), bounds).await;
    attempt.conclude(answer.and_then(|answer| {
        parse(&answer, expected).map_err(|error| Failure::invalid_answer(error, &endpoint.key).not_retriable())
    }))
}

/// The number of documents, and the number of requested results.
#[derive(Debug, Clone, Copy)]
struct Expected {
    count: usize,
    top_n: usize,
}

/// Parses the results of an answer and sorts them, best first. An endpoint may ignore `top_n` and return more results.
fn parse(answer: &[u8], expected: Expected) -> Result<(Vec<RankedDocument>, Option<ReportedUsage>), StreamError> {
    let malformed = |problem: &str| StreamError::Malformed(problem.to_owned());
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|_| malformed("the answer is not in the format of a rerank response"))?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(reported_error(&error));
    }
    let rated: BTreeSet<usize> = answer.results.iter().map(|rated| rated.index).collect();
    let is_known = rated.last().is_none_or(|last| *last < expected.count);
    if !is_known || rated.len() != answer.results.len() || rated.len() < expected.top_n {
        return Err(malformed("expected one result for each of the most relevant documents"));
    }
    if answer.results.iter().any(|rated| !rated.relevance_score.is_finite()) {
        return Err(malformed("a relevance score is not finite"));
    }
    let ranked = |rated: &Rated| RankedDocument { index: rated.index, relevance: rated.relevance_score };
    let mut results: Vec<_> = answer.results.iter().map(ranked).collect();
    results.sort_by(|a, b| b.relevance.total_cmp(&a.relevance).then(a.index.cmp(&b.index)));
    results.truncate(expected.top_n);
    Ok((results, answer.usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes(body: &str, count: usize, top_n: usize) -> Result<Vec<usize>, StreamError> {
        let (results, _) = parse(body.as_bytes(), Expected { count, top_n })?;
        Ok(results.iter().map(|result| result.index).collect())
    }

    #[test]
    fn results_come_best_first_and_not_more_than_requested() {
        let body = r#"{"results": [{"index": 0, "relevance_score": 0.1, "document": {"text": "x"}},
            {"index": 2, "relevance_score": 7}, {"index": 1, "relevance_score": 0.1}], "usage": {"total_tokens": 9}}"#;
        assert_eq!(indexes(body, 3, 3), Ok(vec![2, 0, 1]));
        assert_eq!(indexes(body, 3, 1), Ok(vec![2]));
        assert_eq!(indexes(r#"{"results": []}"#, 3, 0), Ok(vec![]));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        for body in [
            r#"{"results": []}"#,
            r#"{"results": [{"index": 0, "relevance_score": 1}]}"#,
            r#"{"results": [{"index": 0, "relevance_score": 1}, {"index": 0, "relevance_score": 1}]}"#,
            r#"{"results": [{"index": 0, "relevance_score": 1}, {"index": 2, "relevance_score": 1}]}"#,
            r#"{"results": [{"index": 0, "relevance_score": 1}, {"index": 1, "relevance_score": 1e999}]}"#,
            r#"{"results": [{"index": 0, "relevance_score": 1}, {"index": 1}]}"#,
            r#"{"data": []}"#,
            "nonsense",
        ] {
            assert!(matches!(indexes(body, 2, 2), Err(StreamError::Malformed(_))), "{body}");
        }
        let reported = indexes(r#"{"error": {"message": "no such model"}}"#, 1, 1);
        assert_eq!(reported, Err(StreamError::Reported { status: None, message: "no such model".into() }));
    }
}
