//! Embeddings (`embeddings`).

use std::sync::Arc;

use async_openai::types::embeddings::{CreateEmbeddingRequest, EmbeddingInput, EncodingFormat};
use folio_types::message::Usage;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::attempt::{Attempt, Attempts};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::openai::{self, Bounds};
use super::refused_parameters::{self, Parameter};
use super::{Entry, traced};
use crate::batches::BATCH_TEXTS_MAX;
use crate::error_message;
use crate::model::{EmbeddingRequest, Embeddings, ModelError, TimeLimit};
use crate::options::DIMENSIONS_MAX;
use crate::stream::StreamError;
use crate::tokens::count_tokens;

/// Maximum length of a number in JSON, and of the answer apart from its numbers, in bytes.
const NUMBER_BYTES: usize = 32;
const BODY_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Vec<Embedding>,
    #[serde(default)]
    usage: Option<ReportedUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// Tokens that an endpoint reports. Endpoints name one or both of the fields.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReportedUsage {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

/// Returns the usage of a call without output: the reported tokens, else the counted ones.
pub(super) fn usage_of(reported: Option<ReportedUsage>, counted: impl FnOnce() -> u64) -> Usage {
    let reported = reported.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens)).filter(|tokens| *tokens > 0);
    Usage {
        input_tokens: reported.unwrap_or_else(counted),
        reported: reported.is_some(),
        model_calls: 1,
        ..Usage::default()
    }
}

pub(super) async fn embed(entry: &Entry, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
    traced::retrieval("embeddings", entry, call(entry, request), |answer: &Embeddings| answer.usage).await
}

async fn call(entry: &Entry, request: &EmbeddingRequest) -> Result<Embeddings, ModelError> {
    if request.texts.is_empty() {
        return Ok(Embeddings::default());
    }
    if request.texts.len() > BATCH_TEXTS_MAX {
        return Err(ModelError::Failed(format!("a request of embeddings has at most {BATCH_TEXTS_MAX} texts")));
    }
    let call_end = Instant::now() + entry.endpoint.timeouts.call_seconds;
    let stated = Some(entry.info.options.dimensions).filter(|dimensions| *dimensions > 0);
    let make = |dimensions| call_once(entry, request, dimensions, call_end);
    refused_parameters::call_with(entry, (Parameter::Dimensions, stated), make).await
}

async fn call_once(
    entry: &Entry,
    request: &EmbeddingRequest,
    dimensions: Option<u32>,
    call_end: Instant,
) -> Result<Embeddings, ModelError> {
    let endpoint = &entry.endpoint;
    let body = CreateEmbeddingRequest {
        model: entry.info.upstream().to_owned(),
        input: EmbeddingInput::StringArray(request.texts.clone()),
        encoding_format: Some(EncodingFormat::Float),
        dimensions,
        user: None,
    };
    let expected = Expected { count: request.texts.len(), dimensions: entry.info.options.dimensions };
    let _permit = endpoint.permit(&request.org, call_end).await?;
    let mut attempts = Attempts::new(endpoint, call_end, request.progress.clone());
    let attempt = |attempt| send(endpoint, attempt, (&request.call_id, &body), expected, call_end);
    let (vectors, reported) = attempts.run(attempt).await?;
    let counted = || request.texts.iter().map(|text| count_tokens(text)).fold(0, u64::saturating_add);
    Ok(Embeddings { vectors, usage: usage_of(reported, counted) })
}

async fn send(
    endpoint: &Arc<Endpoint>,
    mut attempt: Attempt,
    (call_id, body): (&str, &CreateEmbeddingRequest),
    expected: Expected,
    end: Instant,
) -> Result<(Vec<Vec<f32>>, Option<ReportedUsage>), Failure> {
    let bounds = Bounds { end, limit: TimeLimit::WholeCall, body_bytes: expected.body_bytes() };
    let answer = openai::client(endpoint, call_id, bounds).embeddings().create_byot::<_, Box<RawValue>>(body).await;
    attempt.conclude(answer.map_err(|error| openai::failure(endpoint, error)).and_then(|answer| {
        parse(answer.get(), expected).map_err(|error| Failure::invalid_answer(error, &endpoint.key).not_retriable())
    }))
}

/// The number of the vectors of an answer, and their length (0: any, but equal).
#[derive(Debug, Clone, Copy)]
struct Expected {
    count: usize,
    dimensions: u32,
}

impl Expected {
    fn dimensions_max(self) -> usize {
        let max = if self.dimensions == 0 { DIMENSIONS_MAX } else { self.dimensions };
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    fn body_bytes(self) -> usize {
        BODY_BYTES.saturating_add(self.count.saturating_mul(self.dimensions_max()).saturating_mul(NUMBER_BYTES))
    }
}

fn malformed(problem: impl Into<String>) -> StreamError {
    StreamError::Malformed(problem.into())
}

/// Parses the vectors of an answer, sorts them by text, and normalizes them.
fn parse(answer: &str, expected: Expected) -> Result<(Vec<Vec<f32>>, Option<ReportedUsage>), StreamError> {
    let answer: Answer = serde_json::from_str(answer)
        .map_err(|_| malformed("the answer is not in the format of an embeddings response"))?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(reported_error(&error));
    }
    let mut data = answer.data;
    data.sort_by_key(|embedding| embedding.index);
    let is_complete = data.len() == expected.count;
    if !is_complete || data.iter().enumerate().any(|(index, embedding)| embedding.index != index) {
        return Err(malformed("expected one embedding per text, in order of index"));
    }
    let vectors: Vec<_> =
        data.into_iter().map(|embedding| normalized(embedding.embedding)).collect::<Result<_, _>>()?;
    let length = vectors.first().map_or(0, Vec::len);
    let is_expected = match expected.dimensions {
        0 => length <= expected.dimensions_max(),
        _ => length == expected.dimensions_max(),
    };
    if !is_expected {
        let wanted = match expected.dimensions {
            0 => format!("at most {DIMENSIONS_MAX}"),
            dimensions => format!("{dimensions}, the dimensions of the model in its provider"),
        };
        return Err(malformed(format!("an embedding has {length} numbers; expected {wanted}")));
    }
    if vectors.iter().any(|vector| vector.len() != length) {
        return Err(malformed("the embeddings have different lengths"));
    }
    Ok((vectors, answer.usage))
}

/// Returns the error of an answer with the status of a success.
pub(super) fn reported_error(error: &Value) -> StreamError {
    StreamError::Reported { status: None, message: error_message::one_line(&error_message::message_of(error)) }
}

/// Returns a vector of the same direction with length 1.
fn normalized(mut vector: Vec<f32>) -> Result<Vec<f32>, StreamError> {
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 || !length.is_finite() {
        return Err(malformed("an embedding is empty, zero or not finite"));
    }
    vector.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str, count: usize, dimensions: u32) -> Result<Vec<Vec<f32>>, StreamError> {
        parse(body, Expected { count, dimensions }).map(|(vectors, _)| vectors)
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts_with_length_1() {
        let body =
            r#"{"data": [{"index": 1, "embedding": [0.0, 2.0]}, {"index": 0, "embedding": [3, 4]}], "usage": {}}"#;
        assert_eq!(parsed(body, 2, 0), Ok(vec![vec![0.6, 0.8], vec![0.0, 1.0]]));
        assert_eq!(parsed(body, 2, 2), parsed(body, 2, 0));
        let tiny = r#"{"data": [{"index": 0, "embedding": [1e-30, 0]}]}"#;
        assert_eq!(parsed(tiny, 1, 0), Ok(vec![vec![1.0, 0.0]]));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        for (body, count, dimensions) in [
            (r#"{"data": []}"#, 1, 0),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#, 2, 0),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}"#, 2, 0),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}"#, 1, 0),
            (r#"{"data": [{"index": 5, "embedding": [1]}]}"#, 1, 0),
            (r#"{"data": [{"index": 0, "embedding": []}]}"#, 1, 0),
            (r#"{"data": [{"index": 0, "embedding": [0, 0]}]}"#, 1, 0),
            (r#"{"data": [{"index": 0, "embedding": [1e99]}]}"#, 1, 0),
            (r#"{"data": [{"index": 0, "embedding": [1, 2]}]}"#, 1, 3),
            (r#"{"data": [{"index": 0, "embedding": "AAAA"}]}"#, 1, 0),
            ("nonsense", 1, 0),
        ] {
            assert!(matches!(parsed(body, count, dimensions), Err(StreamError::Malformed(_))), "{body}");
        }
        let many = vec!["1"; DIMENSIONS_MAX as usize + 1].join(",");
        let long = parsed(&format!(r#"{{"data": [{{"index": 0, "embedding": [{many}]}}]}}"#), 1, 0);
        assert!(matches!(long, Err(StreamError::Malformed(problem)) if problem.contains("at most 8192")));
        let reported = parsed(r#"{"error": {"message": "no such model"}}"#, 1, 0);
        assert_eq!(reported, Err(StreamError::Reported { status: None, message: "no such model".into() }));
    }

    #[test]
    fn the_usage_is_the_reported_one_or_counted() {
        let usage = |prompt_tokens, total_tokens| {
            let usage = usage_of(Some(ReportedUsage { prompt_tokens, total_tokens }), || 7);
            (usage.input_tokens, usage.reported)
        };
        assert_eq!(usage(Some(3), Some(4)), (3, true));
        assert_eq!(usage(None, Some(4)), (4, true));
        assert_eq!([usage(None, None), usage(Some(0), None)], [(7, false); 2]);
        assert_eq!(usage_of(None, || 7).model_calls, 1);
    }
}
