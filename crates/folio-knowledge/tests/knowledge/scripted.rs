//! Embedding models and an index whose failures and steps a test scripts.

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

/// An index with failures, and with steps of other processes.
#[derive(Default)]
pub(super) struct Scripted {
    /// The organization whose index cannot be removed.
    pub(super) undeletable: Option<OrgId>,
    /// Runs before the next rebuild.
    pub(super) before_rebuild: Mutex<Option<BoxFuture<'static, ()>>>,
    /// Runs during the next removal of documents.
    pub(super) during_removal: Mutex<Option<BoxFuture<'static, ()>>>,
    /// True: another process changes the index before the end of the next rebuild.
    pub(super) is_changed: AtomicBool,
}

pub(super) struct ScriptedIndex(pub(super) Arc<dyn PassageIndex>, pub(super) Scripted);

#[async_trait]
impl PassageIndex for ScriptedIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState, Error> {
        self.0.state(org).await
    }

    async fn begin_rebuild(&self, org: &OrgId) -> Result<(), Error> {
        let before = self.1.before_rebuild.lock().unwrap().take();
        if let Some(step) = before {
            step.await;
        }
        self.0.begin_rebuild(org).await
    }

    async fn finish_rebuild(&self, org: &OrgId) -> Result<Written, Error> {
        match self.1.is_changed.swap(false, Ordering::Relaxed) {
            true => Ok(Written::NotUsable(IndexState::Rebuilding)),
            false => self.0.finish_rebuild(org).await,
        }
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written, Error> {
        self.0.upsert(org, documents).await
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written, Error> {
        let during = self.1.during_removal.lock().unwrap().take();
        if let Some(step) = during {
            step.await;
        }
        self.0.delete_documents(org, documents).await
    }

    async fn delete_organization(&self, org: &OrgId) -> Result<(), Error> {
        match self.1.undeletable.as_ref() == Some(org) {
            true => Err(Error::unavailable(Reason::NodeLost, "a node is lost")),
            false => self.0.delete_organization(org).await,
        }
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer, Error> {
        self.0.search(org, search).await
    }

    async fn documents(
        &self,
        org: &OrgId,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<ListedDocument>, Error> {
        self.0.documents(org, after, limit).await
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics, Error> {
        self.0.statistics(org).await
    }

    async fn organizations(&self) -> Result<Vec<OrgId>, Error> {
        self.0.organizations().await
    }
}
