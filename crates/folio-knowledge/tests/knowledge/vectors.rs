//! Scripted embedding models, and the vectors of passages.

use super::*;

/// Embedding models; the first one is the chosen one.
#[derive(Default)]
pub(super) struct Vectors {
    models: Mutex<Vec<&'static str>>,
    /// The texts of each request.
    embedded: Mutex<Vec<Vec<String>>>,
    pub(super) fails: Mutex<bool>,
    /// Requests with a text that contains this word fail.
    pub(super) refused: Mutex<Option<&'static str>>,
    /// Runs during the next request.
    during: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Vectors {
    pub(super) fn choose(&self, models: &[&'static str]) {
        *self.models.lock().unwrap() = models.to_vec();
    }

    /// Runs a step of another process during the next request.
    pub(super) fn run_during(&self, step: impl Future<Output = ()> + Send + 'static) {
        *self.during.lock().unwrap() = Some(Box::pin(step));
    }

    /// Returns the number of texts that were embedded since the last call.
    pub(super) fn take(&self) -> usize {
        std::mem::take(&mut *self.embedded.lock().unwrap()).iter().map(Vec::len).sum()
    }
}

#[async_trait]
impl Models for Vectors {
    async fn catalogue(&self, _: &OrgId) -> Result<Arc<Catalogue>, Error> {
        let names = self.models.lock().unwrap().clone();
        let options = ModelOptions { kind: ModelKind::Embedding, context_tokens: 512, ..Default::default() };
        let model =
            |name: &&str| ModelInfo { name: (*name).to_owned(), provider: "own".to_owned(), options: options.clone() };
        let catalogue = Catalogue::new(names.iter().map(model).collect(), String::new(), Vec::new());
        let chosen = names.first().copied().unwrap_or_default().to_owned();
        Ok(Arc::new(catalogue.with_retrieval_models(chosen, String::new())))
    }

    async fn stream(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(ModelError::Failed("no chat".to_owned()))
    }

    async fn complete(&self, _: ModelRequest) -> Result<ModelReply, ModelError> {
        Err(ModelError::Failed("no chat".to_owned()))
    }

    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        let during = self.during.lock().unwrap().take();
        if let Some(step) = during {
            step.await;
        }
        if *self.fails.lock().unwrap() {
            return Err(ModelError::Failed("no embeddings".to_owned()));
        }
        let refused = *self.refused.lock().unwrap();
        if refused.is_some_and(|word| request.texts.iter().any(|text| text.contains(word))) {
            return Err(ModelError::Failed("a text is refused".to_owned()));
        }
        request.progress.set_sent(true);
        let usage = Usage { input_tokens: 1, reported: true, model_calls: 1, ..Usage::default() };
        let vectors = request.texts.iter().map(|text| vec![1.0, text.len() as f32]).collect();
        self.embedded.lock().unwrap().push(request.texts);
        Ok(Embeddings { vectors, usage })
    }
}

#[tokio::test]
async fn equal_texts_keep_their_vectors_and_a_failed_model_leaves_passages_without_vectors() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let document = test.create("pumps.md", TEXT).await;
    *test.models.fails.lock().unwrap() = true;
    assert!(test.ingest(&document).await.is_err());
    let without = test.head(&document).await.unwrap();
    assert_eq!((without.passages, without.space), (2, None), "words find the document meanwhile");
    *test.models.fails.lock().unwrap() = false;
    let first = test.ingested(&document).await;
    assert_eq!((first.space.as_deref(), test.models.take()), (Some("own/first/0"), 2));
    let serving = test.knowledge.serving_space(&test.org).await.unwrap().unwrap();
    assert_eq!((serving.model.as_str(), serving.space.as_str()), ("first", "own/first/0"));
    test.stores().vector_cache().remove_document(&test.org, &document).await.unwrap();
    test.set_text(&document, &TEXT.replace("valve closes", "valve opens")).await;
    let next = test.ingested(&document).await;
    assert_eq!((next.space.as_deref(), test.models.take()), (Some("own/first/0"), 1), "one passage has another text");
}

#[tokio::test]
async fn the_former_model_serves_searches_until_every_passage_has_a_vector_of_the_chosen_one() {
    let test = Sandbox::new().await;
    test.models.choose(&["first"]);
    let [old, new] = [test.create("old.md", TEXT).await, test.create("new.md", "# Fans\n\nThe fan turns.").await];
    test.ingested(&old).await;
    test.models.choose(&["second", "first"]);
    let head = test.ingested(&new).await;
    assert_eq!(head.space.as_deref(), Some("own/second/0"));
    let passages = test.knowledge.passages().read(&test.org, &new, head.generation, &[0]).await.unwrap();
    let spaces: Vec<&str> = passages[0].vectors.iter().map(|vector| vector.space.as_str()).collect();
    assert_eq!(spaces, ["own/second/0", "own/first/0"], "the passage is found in both spaces");
    assert!(!update_serving_space(&test.knowledge, &test.org).await.unwrap());
    assert_eq!(test.knowledge.serving_space(&test.org).await.unwrap().unwrap().model, "first");
    test.ingested(&old).await;
    assert!(update_serving_space(&test.knowledge, &test.org).await.unwrap());
    assert_eq!(test.knowledge.serving_space(&test.org).await.unwrap().unwrap().model, "second");
}
