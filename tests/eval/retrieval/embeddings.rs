//! Vectors of texts from an OpenAI-compatible endpoint.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use llm_sim::LlmSim;
use serde::Deserialize;
use serde_json::json;

/// Texts of a request.
const BATCH: usize = 64;
/// Timeout of a request. A small machine may need minutes for a batch.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum size of an answer in bytes: 64 vectors of 4,096 numbers.
const ANSWER_BYTES: usize = 16 << 20;

/// The models of the endpoint.
#[derive(Debug, Clone)]
pub struct EmbeddingEndpoint {
    /// URL below which `embeddings` is.
    pub base_url: String,
    /// The model of passages.
    pub model: String,
    /// The model of questions. An endpoint may offer the two inputs of one model, such as those of E5, under two names. A server
    /// uses the model of passages for both.
    pub query_model: String,
    /// Text before each passage. Empty: none.
    pub passage_prefix: String,
    /// Text before each question. Empty: none.
    pub query_prefix: String,
    /// API key, not empty. An endpoint without keys ignores it.
    pub api_key: String,
}

impl EmbeddingEndpoint {
    /// Returns the endpoint of a simulator. Its vectors are hashes of words and letters, and are the same in each run.
    pub fn of_sim(sim: &LlmSim) -> Self {
        let model = "llm-sim".to_owned();
        Self {
            base_url: sim.url(),
            query_model: model.clone(),
            model,
            passage_prefix: String::new(),
            query_prefix: String::new(),
            api_key: "none".to_owned(),
        }
    }
}

/// A client of the endpoint.
#[derive(Debug, Clone)]
pub struct Embedder {
    endpoint: EmbeddingEndpoint,
    http: reqwest::Client,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    /// Returns a client.
    ///
    /// # Errors
    /// The client cannot be created, such as without a source of random numbers.
    pub fn new(endpoint: EmbeddingEndpoint) -> Result<Self> {
        let http = reqwest::Client::builder().timeout(TIMEOUT).build()?;
        Ok(Self { endpoint, http })
    }

    /// Returns the vectors of passages, in order.
    ///
    /// # Errors
    /// The endpoint refuses a request, or answers with other vectors than requested.
    pub async fn passages(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            vectors.extend(self.embed(&self.endpoint.model, &self.endpoint.passage_prefix, batch).await?);
        }
        Ok(vectors)
    }

    /// Returns the vector of a question.
    ///
    /// # Errors
    /// As [`Self::passages`].
    pub async fn question(&self, text: &str) -> Result<Vec<f32>> {
        let EmbeddingEndpoint { query_model, query_prefix, .. } = &self.endpoint;
        let vectors = self.embed(query_model, query_prefix, &[text.to_owned()]).await?;
        vectors.into_iter().next().context("the endpoint answered without a vector")
    }

    async fn embed(&self, model: &str, prefix: &str, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let EmbeddingEndpoint { base_url, api_key, .. } = &self.endpoint;
        let url = format!("{}/embeddings", base_url.trim_end_matches('/'));
        let sent: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let body = json!({ "model": model, "input": sent, "encoding_format": "float" });
        let response = self.http.post(&url).bearer_auth(api_key).json(&body).send().await?;
        let status = response.status();
        let answer = response.bytes().await?;
        ensure!(answer.len() <= ANSWER_BYTES, "{url} answered with more than {ANSWER_BYTES} bytes");
        if !status.is_success() {
            bail!("{url} answered {status}: {}", String::from_utf8_lossy(&answer));
        }
        vectors(&answer, texts.len()).with_context(|| format!("{url} answered with unusable vectors"))
    }
}

/// Returns the vectors of an answer in the order of the texts.
fn vectors(answer: &[u8], texts: usize) -> Result<Vec<Vec<f32>>> {
    let mut data = serde_json::from_slice::<Answer>(answer)?.data;
    data.sort_by_key(|vector| vector.index);
    let is_complete = data.len() == texts && data.iter().enumerate().all(|(at, vector)| vector.index == at);
    ensure!(is_complete, "expected one vector for each of {texts} texts");
    Ok(data.into_iter().map(|vector| vector.embedding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_in_the_order_of_the_texts() {
        let answer = br#"{"data": [{"index": 1, "embedding": [2]}, {"index": 0, "embedding": [1.5, 0]}]}"#;
        assert_eq!(vectors(answer, 2).unwrap(), [vec![1.5, 0.0], vec![2.0]]);
        for (refused, texts) in [
            (r#"{"data": []}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": [1]}]}"#, 2),
            (r#"{"data": [{"index": 1, "embedding": [1]}]}"#, 1),
            (r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#, 2),
            ("[]", 0),
        ] {
            assert!(vectors(refused.as_bytes(), texts).is_err(), "{refused}");
        }
    }
}
