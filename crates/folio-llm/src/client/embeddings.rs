//! Embeddings.

use std::sync::Arc;

use async_openai::types::embeddings::{CreateEmbeddingRequest, EmbeddingInput, EncodingFormat};
use folio_types::OrgId;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::attempt::{Attempt, Attempts};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::openai::{self, Bounds};
use super::traced;
use crate::error_message;
use crate::model::{ModelError, TimeLimit};
use crate::progress::Progress;
use crate::stream::StreamError;

/// Maximum number of texts per request. More texts are sent in several requests, one after another.
const TEXTS_PER_REQUEST: usize = 64;
const DIMENSIONS_MAX: usize = 8_192;
/// Maximum length of a number in JSON, and of the answer apart from its numbers, in bytes.
const NUMBER_BYTES: usize = 32;
const BODY_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Vec<Embedding>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// Returns one vector per text, in order. All vectors have the same length.
pub(super) async fn embed(
    endpoint: &Arc<Endpoint>,
    org: &OrgId,
    model: &str,
    dimensions: u32,
    texts: Vec<String>,
) -> Result<Vec<Vec<f32>>, ModelError> {
    traced::embedding(endpoint, model, embed_in_batches(endpoint, org, model, dimensions, texts)).await
}

async fn embed_in_batches(
    endpoint: &Arc<Endpoint>,
    org: &OrgId,
    model: &str,
    dimensions: u32,
    texts: Vec<String>,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let call_end = Instant::now() + endpoint.timeouts.call_seconds;
    let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(texts.len());
    for texts in texts.chunks(TEXTS_PER_REQUEST) {
        let body = CreateEmbeddingRequest {
            model: model.to_owned(),
            input: EmbeddingInput::StringArray(texts.to_vec()),
            encoding_format: Some(EncodingFormat::Float),
            dimensions: Some(dimensions).filter(|dimensions| *dimensions > 0),
            user: None,
        };
        let _permit = endpoint.permit(org, call_end).await?;
        let mut attempts = Attempts::new(endpoint, call_end, Progress::default());
        vectors.extend(attempts.run(|attempt| request(endpoint, attempt, &body, texts.len(), call_end)).await?);
    }
    let length = vectors.first().map_or(0, Vec::len);
    if vectors.iter().any(|vector| vector.len() != length) {
        return Err(StreamError::Malformed("the embeddings have different lengths".to_owned()).into());
    }
    Ok(vectors)
}

async fn request(
    endpoint: &Arc<Endpoint>,
    mut attempt: Attempt,
    body: &CreateEmbeddingRequest,
    count: usize,
    end: Instant,
) -> Result<Vec<Vec<f32>>, Failure> {
    let body_bytes = BODY_BYTES + count * DIMENSIONS_MAX * NUMBER_BYTES;
    let client = openai::client(endpoint, "", Bounds { end, limit: TimeLimit::WholeCall, body_bytes });
    let answer = client.embeddings().create_byot::<_, Box<RawValue>>(body).await;
    attempt.conclude(answer.map_err(|error| openai::failure(endpoint, error)).and_then(|answer| {
        parse(answer.get(), count).map_err(|error| Failure::invalid_answer(error, &endpoint.key).not_retriable())
    }))
}

/// Parses the vectors of an answer and sorts them by text.
fn parse(answer: &str, count: usize) -> Result<Vec<Vec<f32>>, StreamError> {
    let malformed = |problem: &str| StreamError::Malformed(problem.to_owned());
    let answer: Answer = serde_json::from_str(answer)
        .map_err(|_| malformed("the answer is not in the format of an embeddings response"))?;
    if let Some(error) = answer.error.filter(|error| !error.is_null()) {
        return Err(StreamError::Reported {
            status: None,
            message: error_message::one_line(&error_message::message_of(&error)),
        });
    }
    let mut data = answer.data;
    data.sort_by_key(|embedding| embedding.index);
    let in_order = data.len() == count && data.iter().enumerate().all(|(index, embedding)| embedding.index == index);
    if !in_order {
        return Err(malformed("expected one embedding per text, in order of index"));
    }
    let vectors: Vec<_> = data.into_iter().map(|embedding| embedding.embedding).collect();
    let is_valid = |vector: &Vec<f32>| {
        !vector.is_empty() && vector.len() <= DIMENSIONS_MAX && vector.iter().all(|number| number.is_finite())
    };
    if vectors.iter().all(is_valid) {
        Ok(vectors)
    } else {
        Err(malformed("an embedding is empty, too long or not finite"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_in_the_order_of_the_texts() {
        let body = r#"{"data": [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1]}], "usage": {}}"#;
        assert_eq!(parse(body, 2), Ok(vec![vec![1.0], vec![2.0]]));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_an_error() {
        for (body, count) in [
            (r#"{"data": []}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#, 2),
            (r#"{"data": [{"index": 5, "embedding": [1]}]}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": []}]}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": [1e99]}]}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": "AAAA"}]}"#, 1),
            ("nonsense", 1),
        ] {
            assert!(matches!(parse(body, count), Err(StreamError::Malformed(_))), "{body}");
        }
        let reported = parse(r#"{"error": {"message": "no such model"}}"#, 1);
        assert_eq!(reported, Err(StreamError::Reported { status: None, message: "no such model".into() }));
    }
}
