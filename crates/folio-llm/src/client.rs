//! The client: implements [`Models`] on the provider table.

mod attempt;
mod chat;
mod content;
mod cut_prompt;
mod embeddings;
mod endpoint;
mod endpoints;
mod failure;
mod list;
mod live;
mod local;
mod openai;
mod refused_parameters;
mod rerank;
mod streaming_call;
mod traced;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::models::ModelKind;
use folio_types::settings::InvalidSettings;
use folio_types::{Environment, Error, OrgId};

pub use endpoint::{AccountOwner, EndpointStatus, TENANTS};
pub use endpoints::Endpoints;
pub use list::ListedModel;
pub use local::{
    CONTEXT_VARIABLE, DetectedEndpoint, LOCAL_ENDPOINTS, LocalEndpoint, detect_local, discover_context_sizes,
};

use crate::catalogue::Catalogue;
use crate::model::{
    EmbeddingRequest, Embeddings, ModelError, ModelInfo, ModelReply, ModelRequest, ModelStream, Models, RerankRequest,
    Reranking,
};
use crate::network::AddressPolicy;
use crate::options::Options;
use endpoint::Endpoint;

/// Models behind OpenAI-compatible endpoints. Clones share the table.
#[derive(Clone)]
pub struct OpenAiModels {
    table: Arc<Table>,
}

struct Table {
    options: Options,
    endpoints: Vec<Arc<Endpoint>>,
    models: HashMap<String, Entry>,
    catalogue: Arc<Catalogue>,
}

struct Entry {
    endpoint: Arc<Endpoint>,
    info: ModelInfo,
}

impl OpenAiModels {
    /// Creates a client. Reads API keys from the environment variables that the settings name. Makes no connection. The
    /// error lists every problem of the settings.
    pub fn new(options: Options, environment: Arc<dyn Environment>) -> Result<Self, InvalidSettings> {
        let options = options.resolve(|name| std::env::var(name).ok())?;
        let endpoints = Endpoints::new(&options, AddressPolicy::default(), environment);
        Self::from_table(options, &endpoints, |_| AccountOwner::Platform)
    }

    /// Creates a client for a resolved table on shared endpoints. `owner_of` returns the owner of a provider's account.
    ///
    /// # Errors
    /// An invalid or prohibited base URL, or an API key that a header cannot contain.
    pub fn from_table(
        options: Options,
        shared: &Endpoints,
        owner_of: impl Fn(&str) -> AccountOwner,
    ) -> Result<Self, InvalidSettings> {
        let mut table = Table {
            options: Options::default(),
            endpoints: Vec::new(),
            models: HashMap::new(),
            catalogue: Arc::default(),
        };
        for (name, provider) in options.providers.iter().filter(|(_, provider)| provider.enabled) {
            let endpoint = shared.endpoint(name, provider, owner_of(name))?;
            for (model, options) in provider.models.iter().filter(|(_, model)| model.enabled) {
                let info = ModelInfo { name: model.clone(), provider: name.clone(), options: options.clone() };
                let entry = Entry { endpoint: Arc::clone(&endpoint), info };
                table.models.insert(model.clone(), entry);
            }
            table.endpoints.push(endpoint);
        }
        table.select_defaults(&options);
        table.options = options;
        Ok(Self { table: Arc::new(table) })
    }

    pub fn current_catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.table.catalogue)
    }

    pub fn options(&self) -> &Options {
        &self.table.options
    }

    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.table.endpoints.iter().map(|endpoint| endpoint.status()).collect()
    }

    fn entry(&self, model: &str, kind: ModelKind) -> Result<&Entry, ModelError> {
        let entry = self.table.models.get(model).filter(|entry| entry.info.options.kind == kind);
        entry.ok_or_else(|| ModelError::NotAvailable(model.chars().take(200).collect()))
    }
}

impl Table {
    fn select_defaults(&mut self, options: &Options) {
        let mut models: Vec<ModelInfo> = self.models.values().map(|entry| entry.info.clone()).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        let named = |name: &String, kind: ModelKind| {
            let is_named = |entry: &&Entry| entry.info.options.kind == kind;
            self.models.get(name).filter(is_named).map(|entry| entry.info.name.clone())
        };
        let of_kind = |kind: ModelKind| models.iter().filter(move |model| model.options.kind == kind);
        let first = |model: Option<&ModelInfo>| model.map(|model| model.name.clone());
        let chat = named(&options.default_model, ModelKind::Chat)
            .or_else(|| first(of_kind(ModelKind::Chat).find(|model| model.options.chat)))
            .or_else(|| first(of_kind(ModelKind::Chat).next()));
        let embedding = named(&options.default_embedding_model, ModelKind::Embedding)
            .or_else(|| first(of_kind(ModelKind::Embedding).next()));
        let rerank = named(&options.default_rerank_model, ModelKind::Rerank);
        let image = named(&options.default_image_model, ModelKind::Chat);
        let catalogue = Catalogue::new(models, chat.unwrap_or_default(), options.fallbacks.clone());
        let retrieval = (embedding.unwrap_or_default(), rerank.unwrap_or_default());
        let catalogue = catalogue.with_retrieval_models(retrieval.0, retrieval.1);
        self.catalogue = Arc::new(catalogue.with_image_model(image.unwrap_or_default()));
    }
}

#[async_trait]
impl Models for OpenAiModels {
    async fn catalogue(&self, _org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        Ok(self.current_catalogue())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        chat::stream(self.entry(&request.model, ModelKind::Chat)?, &request).await
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        chat::complete(self.entry(&request.model, ModelKind::Chat)?, &request).await
    }

    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        embeddings::embed(self.entry(&request.model, ModelKind::Embedding)?, &request).await
    }

    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        rerank::rerank(self.entry(&request.model, ModelKind::Rerank)?, &request).await
    }
}
