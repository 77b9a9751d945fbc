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
mod streaming_call;
mod traced;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use folio_types::settings::InvalidSettings;
use folio_types::{Environment, Error, OrgId};

pub use endpoint::{AccountOwner, EndpointStatus, TENANTS};
pub use endpoints::Endpoints;
pub use list::ListedModel;
pub use local::{
    CONTEXT_VARIABLE, DetectedEndpoint, LOCAL_ENDPOINTS, LocalEndpoint, detect_local, discover_context_sizes,
};

use crate::catalogue::Catalogue;
use crate::model::{ModelError, ModelInfo, ModelReply, ModelRequest, ModelStream, Models};
use crate::network::AddressPolicy;
use crate::options::{EmbeddingOptions, Options};
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
    embeddings: HashMap<String, EmbeddingEntry>,
    catalogue: Arc<Catalogue>,
    default_embedding_model: String,
}

struct Entry {
    endpoint: Arc<Endpoint>,
    info: ModelInfo,
}

impl Entry {
    /// Returns the name of the model at its endpoint.
    fn upstream(&self) -> &str {
        upstream(&self.info.name, &self.info.options.upstream)
    }
}

struct EmbeddingEntry {
    endpoint: Arc<Endpoint>,
    options: EmbeddingOptions,
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
            embeddings: HashMap::new(),
            catalogue: Arc::default(),
            default_embedding_model: String::new(),
        };
        for (name, provider) in options.providers.iter().filter(|(_, provider)| provider.enabled) {
            let endpoint = shared.endpoint(name, provider, owner_of(name))?;
            for (model, options) in provider.models.iter().filter(|(_, model)| model.enabled) {
                let info = ModelInfo { name: model.clone(), provider: name.clone(), options: options.clone() };
                let entry = Entry { endpoint: Arc::clone(&endpoint), info };
                table.models.insert(model.clone(), entry);
            }
            for (model, options) in &provider.embedding_models {
                let entry = EmbeddingEntry { endpoint: Arc::clone(&endpoint), options: options.clone() };
                table.embeddings.insert(model.clone(), entry);
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

    /// Returns the default embedding model. None: no embedding model is configured.
    pub fn default_embedding_model(&self) -> Option<&str> {
        Some(self.table.default_embedding_model.as_str()).filter(|name| !name.is_empty())
    }

    fn entry(&self, model: &str) -> Result<&Entry, ModelError> {
        self.table.models.get(model).ok_or_else(|| ModelError::NotAvailable(model.chars().take(200).collect()))
    }
}

impl Table {
    fn select_defaults(&mut self, options: &Options) {
        let mut models: Vec<ModelInfo> = self.models.values().map(|entry| entry.info.clone()).collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        let first = models.iter().find(|model| model.options.chat).or(models.first()).map(|model| model.name.clone());
        let named = Some(options.default_model.clone()).filter(|named| self.models.contains_key(named));
        let default = named.or(first).unwrap_or_default();
        self.catalogue = Arc::new(Catalogue::new(models, default, options.fallbacks.clone()));
        let named = Some(options.default_embedding_model.clone());
        self.default_embedding_model = named.filter(|named| self.embeddings.contains_key(named)).unwrap_or_default();
        if self.default_embedding_model.is_empty() {
            self.default_embedding_model = self.embeddings.keys().min().cloned().unwrap_or_default();
        }
    }
}

/// Returns the name of a model at its endpoint.
fn upstream<'a>(name: &'a str, upstream: &'a str) -> &'a str {
    if upstream.is_empty() { name } else { upstream }
}

#[async_trait]
impl Models for OpenAiModels {
    async fn catalogue(&self, _org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        Ok(self.current_catalogue())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        chat::stream(self.entry(&request.model)?, &request).await
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        chat::complete(self.entry(&request.model)?, &request).await
    }

    async fn embed(&self, org: &OrgId, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        let model = if model.is_empty() { self.table.default_embedding_model.as_str() } else { model };
        let entry = self.table.embeddings.get(model);
        let entry = entry.ok_or_else(|| ModelError::NotAvailable(model.chars().take(200).collect()))?;
        embeddings::embed(
            &entry.endpoint,
            org,
            upstream(model, &entry.options.upstream),
            entry.options.dimensions,
            texts,
        )
        .await
    }
}
