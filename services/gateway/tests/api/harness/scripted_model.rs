//! The model of a test server, whose answers the test scripts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use folio_llm::{
    Catalogue, EmbeddingRequest, Embeddings, ModelError, ModelEvent, ModelInfo, ModelKind, ModelReply, ModelRequest,
    ModelStream, Models, RankedDocument, RawToolCall, RerankRequest, Reranking,
};
use folio_providers::Providers;
use folio_types::message::{FinishReason, Usage};
use folio_types::models::ModelOptions;
use folio_types::{Error, OrgId};
use futures::StreamExt as _;

/// The name of the scripted model.
pub(crate) const MODEL: &str = "test-model";

pub(crate) enum Answer {
    Text(String),
    Calls(Vec<(&'static str, serde_json::Value)>),
    /// The model does not answer until the call is cancelled.
    Hang,
}

/// A model whose answers a test scripts. It also serves the models that organizations configure.
#[derive(Default)]
pub(crate) struct Scripted {
    answers: Mutex<VecDeque<Answer>>,
    calls: Mutex<usize>,
    /// The system message of the last call.
    system: Mutex<String>,
    /// Time from a call until its answer.
    delay: Mutex<Duration>,
    pub(super) set: OnceLock<Providers>,
}

impl Scripted {
    pub(crate) fn answer(&self, text: &str) {
        self.next(Answer::Text(text.to_owned()));
    }

    pub(crate) fn next(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    pub(crate) fn calls(&self) -> usize {
        *self.calls.lock().unwrap()
    }

    /// Sets the time from a call until its answer, during which other requests arrive. Applies to calls in progress as well.
    pub(crate) fn delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    async fn wait(&self) {
        let begun_at = Instant::now();
        while begun_at.elapsed() < *self.delay.lock().unwrap() {
            // The model works for this time, which may end earlier.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn last_system_message(&self) -> String {
        self.system.lock().unwrap().clone()
    }

    fn reply(&self, request: ModelRequest) -> Result<Option<ModelReply>, ModelError> {
        request.progress.set_sent(true);
        *self.calls.lock().unwrap() += 1;
        self.system.lock().unwrap().clone_from(&request.system);
        let answer = self.answers.lock().unwrap().pop_front();
        let (text, calls) = match answer.ok_or_else(|| ModelError::Failed("no answer is scripted".into()))? {
            Answer::Hang => return Ok(None),
            Answer::Text(text) => (text, Vec::new()),
            Answer::Calls(calls) => (String::new(), calls),
        };
        let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let call = |(name, arguments): (&str, serde_json::Value)| RawToolCall {
            id: "call_0".into(),
            name: name.into(),
            arguments: arguments.to_string(),
        };
        Ok(Some(ModelReply {
            model: request.model,
            text,
            calls: calls.into_iter().map(call).collect(),
            finish: Some(finish),
            usage: Usage { input_tokens: 10, output_tokens: 5, reported: true, model_calls: 1, ..Usage::default() },
            ..ModelReply::default()
        }))
    }
}

#[async_trait]
impl Models for Scripted {
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        let model = |name: &str, chat, prompts| ModelInfo {
            name: name.to_owned(),
            provider: "test".to_owned(),
            options: ModelOptions {
                context_tokens: 32_000,
                max_output_tokens: 4_000,
                chat,
                prompts,
                vision: name == MODEL,
                input_price: Some(150_000),
                output_price: Some(600_000),
                ..ModelOptions::default()
            },
        };
        let mut models =
            vec![model(MODEL, true, true), model("chat-only", true, false), model("prompts-only", false, true)];
        for (name, kind) in [("test-vectors", ModelKind::Embedding), ("test-rates", ModelKind::Rerank)] {
            let mut model = model(name, false, false);
            (model.options.kind, model.options.output_price) = (kind, None);
            models.push(model);
        }
        let (mut vectors, mut rates, mut sees) = ("test-vectors".to_owned(), String::new(), String::new());
        if let Some(set) = self.set.get() {
            let set = set.catalogue(org).await?;
            let set_models = set.list().iter().chain(set.retrieval_models());
            models.extend(set_models.filter(|model| model.provider != PLATFORM).cloned());
            if let Some(model) = set.embedding_model().filter(|model| model.provider != PLATFORM) {
                vectors.clone_from(&model.name);
            }
            if let Some(model) = set.rerank_model().filter(|model| model.provider != PLATFORM) {
                rates.clone_from(&model.name);
            }
            if let Some(model) = set.image_model().filter(|model| model.provider != PLATFORM) {
                sees.clone_from(&model.name);
            }
        }
        let catalogue = Catalogue::new(models, MODEL.to_owned(), Vec::new()).with_retrieval_models(vectors, rates);
        Ok(Arc::new(catalogue.with_image_model(sees)))
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let Some(reply) = self.reply(request)? else { return Ok(futures::stream::pending().boxed()) };
        self.wait().await;
        let mut events = Vec::new();
        if !reply.text.is_empty() {
            events.push(Ok(ModelEvent::Text(reply.text.clone())));
        }
        events.push(Ok(ModelEvent::Done(Box::new(reply))));
        Ok(futures::stream::iter(events).boxed())
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        match self.reply(request)? {
            Some(reply) => {
                self.wait().await;
                Ok(reply)
            }
            None => std::future::pending().await,
        }
    }

    /// Returns the same vector for each text.
    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        request.progress.set_sent(true);
        let usage = Usage { input_tokens: 3, reported: true, model_calls: 1, ..Usage::default() };
        Ok(Embeddings { vectors: vec![vec![1.0, 0.0]; request.texts.len()], usage })
    }

    /// Returns the documents in their order.
    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        request.progress.set_sent(true);
        let usage = Usage { input_tokens: 4, reported: true, model_calls: 1, ..Usage::default() };
        let ranked = |index| RankedDocument { index, relevance: 0.5 };
        let results = (0..request.documents.len().min(request.top_n)).map(ranked).collect();
        Ok(Reranking { results, usage })
    }
}

/// The platform's provider, whose models no test calls.
const PLATFORM: &str = "openai";
