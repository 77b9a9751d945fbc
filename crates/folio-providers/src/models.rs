//! The models of a process: the catalogue of each organization behind one trait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_llm::{
    AccountOwner, AddressPolicy, Catalogue, EmbeddingRequest, Embeddings, EndpointStatus, Endpoints, ListedModel,
    ModelError, ModelReply, ModelRequest, ModelStream, Models, Network, OpenAiModels, ProviderOptions, RerankRequest,
    Reranking,
};
use folio_resources::{ModelSettings, SealedKey};
use folio_storage::{ResourceStore, Stores};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Environment, Error, OrgId, Result, Secret};
use moka::future::Cache;

use crate::check;
use crate::resolve::{Layer, Resolved, resolve};
use crate::vault::Vault;

/// Maximum number of cached catalogues. The least recently used one is evicted first.
const CACHE_MAX: u64 = 10_000;
/// Time without use after which a catalogue is evicted.
const CACHE_IDLE: Duration = Duration::from_secs(600);

folio_types::settings! {
    /// The settings section `providers`.
    pub struct Options {
        /// Time for which a catalogue is cached, in seconds. Other processes apply a change within this time.
        pub refresh_seconds: Duration as "refresh_seconds" = Duration::from_secs(3),
        /// Networks to which base URLs and webhook endpoints of organizations may resolve in addition to the public
        /// internet, such as `10.1.0.0/16`. At most 100.
        pub allowed_networks: Vec<Network> = Vec::new(),
        /// Networks to which base URLs and webhook endpoints of organizations must not resolve, even if they are public
        /// or allowed: the operator's own networks with public addresses, such as `2001:db8:7::/48`. At most 100.
        pub denied_networks: Vec<Network> = Vec::new(),
    }
}

impl Options {
    /// Returns every invalid setting.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("providers");
        problems.seconds("refresh_seconds", self.refresh_seconds, Duration::ZERO, Duration::from_secs(60));
        problems.check(self.allowed_networks.len() <= 100, "allowed_networks", "must contain at most 100 networks");
        problems.check(self.denied_networks.len() <= 100, "denied_networks", "must contain at most 100 networks");
        problems.into_result()
    }
}

/// The catalogues of all organizations, and the operations that change them. Cheap to clone.
#[derive(Clone)]
pub struct Providers {
    inner: Arc<Inner>,
}

struct Inner {
    stores: Stores,
    settings: ResourceStore<ModelSettings>,
    environment: Arc<dyn Environment>,
    vault: Vault,
    address_policy: AddressPolicy,
    /// The settings section `models`.
    file_settings: folio_llm::Options,
    endpoints: Endpoints,
    /// Keeps the circuit breakers of the endpoints in the settings file alive.
    _table_models: OpenAiModels,
    /// Catalogues that are used without reading their settings, for `refresh_seconds`.
    recent: Cache<OrgId, Arc<CachedCatalogue>>,
    /// Catalogues that are used while the versions of their settings are unchanged. Organizations without settings
    /// share the platform's catalogue.
    by_version: Cache<OrgId, Arc<CachedCatalogue>>,
}

/// A catalogue with the versions of the platform's and the organization's settings that it was built from.
struct CachedCatalogue {
    versions: (u64, u64),
    models: OpenAiModels,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Providers")
    }
}

impl Providers {
    /// Creates the catalogues from the section `models` of the settings file (`file_settings`) and from the stored settings.
    /// Does not connect to endpoints.
    ///
    /// # Errors
    /// Every invalid setting in `file_settings`.
    pub fn new(
        file_settings: folio_llm::Options,
        options: &Options,
        vault: Vault,
        stores: &Stores,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, InvalidSettings> {
        let file_settings = file_settings.resolve(|name| std::env::var(name).ok())?;
        let address_policy = AddressPolicy::new(&options.allowed_networks).without(&options.denied_networks);
        let endpoints = Endpoints::new(&file_settings, address_policy.clone(), Arc::clone(&environment));
        // Reject an invalid section `models` at startup.
        let table_models = OpenAiModels::from_table(file_settings.clone(), &endpoints, |_| AccountOwner::Platform)?;
        let inner = Inner {
            settings: stores.of(),
            stores: stores.clone(),
            environment,
            vault,
            address_policy,
            file_settings,
            endpoints,
            _table_models: table_models,
            recent: Cache::builder().max_capacity(CACHE_MAX).time_to_live(options.refresh_seconds).build(),
            by_version: Cache::builder().max_capacity(CACHE_MAX).time_to_idle(CACHE_IDLE).build(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns true if there are older master keys, so stored keys should be re-encrypted with the newest one.
    pub fn has_older_master_keys(&self) -> bool {
        self.inner.vault.has_older_master_keys()
    }

    /// Returns the status of each endpoint in use.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.inner.endpoints.status()
    }

    /// Returns the settings of an owner. Version 0: no settings were ever stored.
    pub async fn settings(&self, owner: &OrgId) -> Result<ModelSettings> {
        Ok(self.inner.settings.get(owner, ModelSettings::fixed_id()).await?.unwrap_or_default())
    }

    /// Returns the models of an organization, or of the platform for [`OrgId::platform`], at most `refresh_seconds`
    /// old.
    pub async fn models_of(&self, owner: &OrgId) -> Result<OpenAiModels> {
        let cached = self.inner.recent.try_get_with_by_ref(owner, self.load(owner)).await;
        cached.map(|cached| cached.models.clone()).map_err(|error: Arc<Error>| (*error).clone())
    }

    /// Returns the names of the platform's providers that an owner may override.
    pub async fn platform_names(&self, owner: &OrgId) -> Result<Vec<String>> {
        if *owner == OrgId::platform() {
            return Ok(self.inner.file_settings.providers.keys().cloned().collect());
        }
        let platform = self.models_of(&OrgId::platform()).await?;
        Ok(platform.options().providers.keys().cloned().collect())
    }

    /// Returns the providers of the settings file, without the changes of the platform.
    pub fn file_providers(&self) -> &BTreeMap<String, ProviderOptions> {
        &self.inner.file_settings.providers
    }

    async fn available_models(&self, org: &OrgId) -> Result<OpenAiModels, ModelError> {
        self.models_of(org).await.map_err(|error| ModelError::CatalogueUnavailable(error.to_string()))
    }

    async fn load(&self, owner: &OrgId) -> Result<Arc<CachedCatalogue>> {
        let inner = &*self.inner;
        let platform = OrgId::platform();
        let owner_settings =
            async { if *owner == platform { Ok(ModelSettings::default()) } else { self.settings(owner).await } };
        let (platform_settings, mut owner_settings) = futures::try_join!(self.settings(&platform), owner_settings)?;
        let versions = (platform_settings.version, owner_settings.version);
        let shared = if owner_settings.version == 0 { &platform } else { owner };
        if let Some(cached) = inner.by_version.get(shared).await.filter(|cached| cached.versions == versions) {
            return Ok(cached);
        }
        for (name, provider) in owner_settings.providers.iter_mut().filter(|(_, provider)| provider.enabled) {
            // The address policy may have changed after the URL was stored. Other providers are not affected.
            if let Err(error) = check::base_url("base_url", &provider.base_url, Some(&inner.address_policy)) {
                tracing::warn!(org = %owner, provider = name, %error, "model provider is disabled: its base URL is not permitted");
                provider.enabled = false;
            }
        }
        let open = |org: &OrgId, name: &str, key: &SealedKey| self.decrypt_key(org, name, key);
        let layers =
            (Layer { org: &platform, settings: &platform_settings }, Layer { org: owner, settings: &owner_settings });
        let Resolved { options, owners } = resolve(&inner.file_settings, &layers.0, &layers.1, open);
        let models = OpenAiModels::from_table(options, &inner.endpoints, |name| owners.of(name));
        let models = models.map_err(|error| Error::internal(format!("stored model settings: {error}")))?;
        let cached = Arc::new(CachedCatalogue { versions, models });
        inner.by_version.insert(shared.clone(), Arc::clone(&cached)).await;
        Ok(cached)
    }

    fn decrypt_key(&self, org: &OrgId, name: &str, key: &SealedKey) -> Option<Secret> {
        match self.inner.vault.open(org, name, key) {
            Ok(key) => Some(key),
            Err(error) => {
                tracing::error!(%org, provider = name, %error, "cannot decrypt the API key of a model provider");
                None
            }
        }
    }

    /// Requests the model list of an endpoint that the owner configured. Returns the configured URL and the models.
    pub(crate) async fn list_endpoint_models(&self, owner: &OrgId, name: &str) -> Result<(String, Vec<ListedModel>)> {
        let settings = self.settings(owner).await?;
        let own = settings.providers.get(name).filter(|provider| provider.is_own());
        let Some(own) = own else {
            return Err(Error::not_found("own model provider", name.chars().take(80).collect::<String>()));
        };
        if let Some(key) = &own.key {
            // Fail if the key cannot be decrypted, rather than call the endpoint without a key.
            self.inner.vault.open(owner, name, key)?;
        }
        let base_url = own.base_url.clone();
        // Query the provider even if it is disabled.
        let mut queried = settings.clone();
        queried.providers.retain(|other, _| other == name);
        queried.providers.values_mut().for_each(|provider| provider.enabled = true);
        let platform = OrgId::platform();
        let (platform_settings, tenant) = if *owner == platform {
            (queried, ModelSettings::default())
        } else {
            (self.settings(&platform).await?, queried)
        };
        let open = |org: &OrgId, name: &str, key: &SealedKey| self.decrypt_key(org, name, key);
        let layers = (Layer { org: &platform, settings: &platform_settings }, Layer { org: owner, settings: &tenant });
        let Resolved { options, owners } = resolve(&self.inner.file_settings, &layers.0, &layers.1, open);
        let provider = options.providers.get(name).ok_or_else(|| Error::not_found("model provider", name))?;
        if *owner != platform && owners.of(name) == AccountOwner::Platform {
            // The endpoint belongs to the platform and accepts no keys of organizations.
            return Err(Error::not_found("own model provider", name));
        }
        let found = self.inner.endpoints.available(name, provider, owners.of(name)).await;
        Ok((base_url, found?))
    }

    /// Evicts the owner's catalogue, or every catalogue if the owner is the platform.
    pub(crate) async fn evict(&self, owner: &OrgId) {
        if *owner == OrgId::platform() {
            self.inner.recent.invalidate_all();
        } else {
            self.inner.recent.invalidate(owner).await;
        }
    }

    pub(crate) fn file_settings(&self) -> &folio_llm::Options {
        &self.inner.file_settings
    }

    pub fn vault(&self) -> &Vault {
        &self.inner.vault
    }

    /// The addresses that URLs of organizations may have.
    pub fn address_policy(&self) -> &AddressPolicy {
        &self.inner.address_policy
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.inner.stores
    }

    pub(crate) fn environment(&self) -> &dyn Environment {
        self.inner.environment.as_ref()
    }
}

#[async_trait]
impl Models for Providers {
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>> {
        Ok(self.models_of(org).await?.current_catalogue())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.available_models(&request.org).await?.stream(request).await
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        self.available_models(&request.org).await?.complete(request).await
    }

    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        self.available_models(&request.org).await?.embed(request).await
    }

    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        self.available_models(&request.org).await?.rerank(request).await
    }
}
