//! Embeddings and reranking.

use folio_llm::{BATCH_TEXTS_MAX, EmbeddingRequest, ModelError, Models, Progress, RerankRequest};
use llm_sim::{Fault, FaultTarget};
use serde_json::{Value, json};

use super::*;

fn embedding(texts: &[&str]) -> EmbeddingRequest {
    EmbeddingRequest {
        call_id: "call.1".into(),
        org: org(),
        model: "vectors".into(),
        texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        progress: Progress::default(),
    }
}

fn reranking(documents: &[&str], top_n: usize) -> RerankRequest {
    RerankRequest {
        call_id: "call.2".into(),
        org: org(),
        model: "rates".into(),
        query: "total amount due".into(),
        documents: documents.iter().map(|text| (*text).to_owned()).collect(),
        top_n,
        progress: Progress::default(),
    }
}

async fn started() -> LlmSim {
    LlmSim::builder().dimensions(64).start().await.unwrap()
}

/// Returns a client whose embedding model has vectors of this length.
fn with_dimensions(sim: &LlmSim, dimensions: u32) -> OpenAiModels {
    let set = |options: &mut Options| {
        let provider = options.providers.get_mut("openai").unwrap();
        provider.models.get_mut("vectors").unwrap().dimensions = dimensions;
    };
    client(&sim.url(), set).0
}

fn requested_dimensions(sim: &LlmSim) -> Vec<Value> {
    sim.requests().iter().map(|request| request.body["dimensions"].clone()).collect()
}

#[tokio::test]
async fn vectors_of_similar_texts_are_similar_and_the_usage_is_reported() {
    let sim = started().await;
    let models = models(&sim.url());
    let answer = models.embed(embedding(&["total amount due", "red foxes jump", "the amount due is"])).await.unwrap();
    let dot =
        |a: usize, b: usize| -> f32 { answer.vectors[a].iter().zip(&answer.vectors[b]).map(|(x, y)| x * y).sum() };
    assert!(dot(0, 2) > dot(0, 1) + 0.2 && (dot(1, 1) - 1.0).abs() < 1e-5);
    assert!(answer.usage.reported && answer.usage.input_tokens > 0 && answer.usage.model_calls == 1);
    let requests = sim.requests();
    assert_eq!((requests[0].path.as_str(), requests.len()), ("/v1/embeddings", 1));
    assert_eq!(
        (requests[0].header("x-client-request-id"), requests[0].header("authorization")),
        (Some("call.1"), Some("present"))
    );
    assert_eq!(requested_dimensions(&sim), [Value::Null]);
    assert!(models.embed(embedding(&[])).await.unwrap().vectors.is_empty());
    let many = vec!["a"; BATCH_TEXTS_MAX + 1];
    assert!(matches!(models.embed(embedding(&many)).await, Err(ModelError::Failed(_))));
    assert_eq!(sim.requests().len(), 1, "neither call needs a request");
}

#[tokio::test]
async fn a_model_is_called_for_its_kind_only() {
    let sim = started().await;
    let models = models(&sim.url());
    for model in ["scripted", "rates", "other"] {
        let wrong = EmbeddingRequest { model: model.into(), ..embedding(&["a"]) };
        assert_eq!(models.embed(wrong).await, Err(ModelError::NotAvailable(model.into())));
    }
    let wrong = RerankRequest { model: "vectors".into(), ..reranking(&["a"], 1) };
    assert_eq!(models.rerank(wrong).await, Err(ModelError::NotAvailable("vectors".into())));
    let chat = ModelRequest { model: "vectors".into(), ..request() };
    assert_eq!(models.complete(chat).await, Err(ModelError::NotAvailable("vectors".into())));
    let catalogue = models.catalogue(&org()).await.unwrap();
    assert_eq!(catalogue.embedding_model().unwrap().name, "vectors", "the first embedding model by name");
    assert!(catalogue.rerank_model().is_none(), "a rerank model must be named");
}

#[tokio::test]
async fn dimensions_are_requested_and_checked() {
    let sim = started().await;
    let models = with_dimensions(&sim, 32);
    assert_eq!(models.embed(embedding(&["a"])).await.unwrap().vectors[0].len(), 32);
    let message = json!({"error": {"message": "This model does not support specifying dimensions."}}).to_string();
    let refusal = Fault::Status { code: 400, retry_after: None, body: Some(message) };
    sim.set_faults(FaultPlan::first(1, refusal).on(FaultTarget::Embeddings));
    let other_length = models.embed(embedding(&["a"])).await.unwrap_err();
    assert!(other_length.to_string().contains("has 64 numbers; expected 32"), "{other_length}");
    let models = with_dimensions(&sim, 64);
    let refusal = Fault::Status { code: 400, retry_after: None, body: Some("no dimensions".to_owned()) };
    sim.set_faults(FaultPlan::first(1, refusal).on(FaultTarget::Embeddings));
    for _ in 0..2 {
        assert_eq!(models.embed(embedding(&["a"])).await.unwrap().vectors[0].len(), 64);
    }
    let requested = requested_dimensions(&sim);
    assert_eq!(requested, [json!(32), json!(32), Value::Null, json!(64), Value::Null, Value::Null]);
}

#[tokio::test]
async fn documents_are_ranked_by_their_relevance() {
    let sim = started().await;
    let models = models(&sim.url());
    let documents = ["red foxes jump", "the total amount due", "the amount"];
    let answer = models.rerank(reranking(&documents, 2)).await.unwrap();
    assert_eq!(answer.results.iter().map(|result| result.index).collect::<Vec<_>>(), [1, 2]);
    assert!(answer.results[0].relevance > answer.results[1].relevance && answer.usage.reported);
    let requests = sim.requests();
    let expected = json!({"model": "rates", "query": "total amount due", "documents": documents, "top_n": 2});
    assert_eq!((requests[0].path.as_str(), &requests[0].body), ("/v1/rerank", &expected));
    assert_eq!(requests[0].header("x-client-request-id"), Some("call.2"));
    assert_eq!(models.rerank(reranking(&documents, 100)).await.unwrap().results.len(), 3);
    assert!(models.rerank(reranking(&[], 1)).await.unwrap().results.is_empty());
}

#[tokio::test]
async fn failures_are_retried_or_reported_as_those_of_other_calls() {
    let sim = started().await;
    let models = models(&sim.url());
    let status = |code| Fault::Status { code, retry_after: None, body: None };
    for (fault, expected, is_sent) in [
        (status(400), "refused", false),
        (status(429), "rate limit", false),
        (status(500), "answered 500", true),
        (Fault::Garbage { after_chunks: 0 }, "not JSON", true),
        (Fault::Garbage { after_chunks: 1 }, "not JSON", true),
        (Fault::Cut { after_chunks: 1, broken: true }, "broke", true),
        (Fault::Reset { after_chunks: 0 }, "broke", true),
        (Fault::Flood { bytes: 4 << 20 }, "too large", true),
    ] {
        for target in [FaultTarget::Embeddings, FaultTarget::Rerank] {
            sim.set_faults(FaultPlan::always(fault.clone()).on(target));
            let (embedding, reranking) = (embedding(&["a"]), reranking(&["a"], 1));
            let (progress, error) = match target {
                FaultTarget::Rerank => {
                    (reranking.progress.clone(), models.rerank(reranking).await.unwrap_err().to_string())
                }
                _ => (embedding.progress.clone(), models.embed(embedding).await.unwrap_err().to_string()),
            };
            assert!(error.contains(expected), "{fault:?} {target:?}: {error}");
            assert_eq!(progress.is_sent(), is_sent, "{fault:?} {target:?}");
        }
    }
    for target in [FaultTarget::Embeddings, FaultTarget::Rerank] {
        sim.set_faults(FaultPlan::first(2, status(503)).on(target));
        let before = sim.requests().len();
        match target {
            FaultTarget::Rerank => drop(models.rerank(reranking(&["a"], 1)).await.unwrap()),
            _ => drop(models.embed(embedding(&["a"])).await.unwrap()),
        }
        assert_eq!(sim.requests().len(), before + 3, "two retries");
    }
}
