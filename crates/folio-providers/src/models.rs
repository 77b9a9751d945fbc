//! The models of a process: each organization's own catalogue behind one port.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_llm::{
    Catalogue, EndpointStatus, Endpoints, ModelError, ModelReply, ModelRequest, ModelStream, Models, Network,
    OpenAiModels, Owned, Reach,
};
use folio_storage::{AccessStore, ProviderStore, Stores};
use folio_types::models::{ModelSettings, SealedKey};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Environment, Error, OrgId, Result, Secret, Timestamp};
use moka::future::Cache;
use serde::{Deserialize, Serialize};

use crate::check;
use crate::resolve::{Layer, Resolved, resolve};
use crate::vault::Vault;

/// Catalogues that are kept; one more lets the one go that was used least.
const KEPT: u64 = 10_000;
/// How long one is kept that nobody asks for.
const KEPT_FOR: Duration = Duration::from_secs(600);

/// Settings of what organizations may set of models (`providers`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// How long a catalogue is believed before its store is asked again: a change counts on every process after that.
    /// Default 3.
    #[serde(with = "folio_types::seconds")]
    pub refresh_seconds: Duration,
    /// Networks beside the public internet that base URLs of organizations may lead to, such as `10.1.0.0/16`. At most 100.
    pub allowed_networks: Vec<Network>,
    /// Networks that base URLs of organizations may not lead to, though they are public or allowed: the operator's own that have
    /// addresses of the public internet, such as `2001:db8:7::/48`. At most 100.
    pub denied_networks: Vec<Network>,
}

impl Default for Options {
    fn default() -> Self {
        Self { refresh_seconds: Duration::from_secs(3), allowed_networks: Vec::new(), denied_networks: Vec::new() }
    }
}

impl Options {
    /// Checks every setting.
    ///
    /// # Errors
    /// What cannot be used.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("providers");
        problems.seconds("refresh_seconds", self.refresh_seconds, Duration::ZERO, Duration::from_secs(60));
        problems.check(self.allowed_networks.len() <= 100, "allowed_networks", "must be at most 100");
        problems.check(self.denied_networks.len() <= 100, "denied_networks", "must be at most 100");
        problems.verdict()
    }
}

/// The catalogues of all organizations, and what changes them. Cheap to clone.
#[derive(Clone)]
pub struct Providers {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn ProviderStore>,
    access: Arc<dyn AccessStore>,
    environment: Arc<dyn Environment>,
    vault: Vault,
    reach: Reach,
    table: folio_llm::Options,
    endpoints: Endpoints,
    /// The table as it is in the settings: keeps its endpoints, with what their breakers know.
    _kept: OpenAiModels,
    /// What was read a moment ago.
    fresh: Cache<OrgId, Arc<Known>>,
    /// What was built, as long as its settings have these versions. Organizations that set nothing share the platform's.
    built: Cache<OrgId, Arc<Known>>,
}

/// A catalogue, and the versions of the settings of platform and organization that it was built from.
struct Known {
    versions: (u64, u64),
    models: OpenAiModels,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Providers")
    }
}

impl Providers {
    /// The catalogues over this table of the settings. Nothing is connected yet.
    ///
    /// # Errors
    /// Every problem of the table.
    pub fn new(
        table: folio_llm::Options,
        options: &Options,
        vault: Vault,
        stores: &Stores,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, InvalidSettings> {
        let table = table.resolve(|name| std::env::var(name).ok())?;
        let reach = Reach::new(&options.allowed_networks).without(&options.denied_networks);
        let endpoints = Endpoints::new(&table, reach.clone(), Arc::clone(&environment));
        // The table itself is good or the start fails.
        let kept = OpenAiModels::built(table.clone(), &endpoints, |_| Owned::Platform)?;
        let inner = Inner {
            store: Arc::clone(&stores.providers),
            access: Arc::clone(&stores.access),
            environment,
            vault,
            reach,
            table,
            endpoints,
            _kept: kept,
            fresh: Cache::builder().max_capacity(KEPT).time_to_live(options.refresh_seconds).build(),
            built: Cache::builder().max_capacity(KEPT).time_to_idle(KEPT_FOR).build(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether older master keys are there beside the newest: then stored keys are to be put under the newest one.
    pub fn rotates(&self) -> bool {
        self.inner.vault.rotates()
    }

    /// How each endpoint in use stands.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        self.inner.endpoints.status()
    }

    /// What an owner has set.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub async fn settings(&self, owner: &OrgId) -> Result<ModelSettings> {
        Ok(self.inner.store.settings(owner).await?.unwrap_or_default())
    }

    /// The models of an organization now, or the platform's where the owner is [`ModelSettings::platform`].
    pub async fn models_of(&self, owner: &OrgId) -> Result<OpenAiModels> {
        let known = self.inner.fresh.try_get_with_by_ref(owner, self.load(owner)).await;
        known.map(|known| known.models.clone()).map_err(|error: Arc<Error>| (*error).clone())
    }

    /// The names of the platform's providers, for who may set something for them.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub async fn platform_names(&self, owner: &OrgId) -> Result<Vec<String>> {
        if *owner == ModelSettings::platform() {
            return Ok(self.inner.table.providers.keys().cloned().collect());
        }
        let platform = self.models_of(&ModelSettings::platform()).await?;
        Ok(platform.options().providers.keys().cloned().collect())
    }

    async fn load(&self, owner: &OrgId) -> Result<Arc<Known>> {
        let inner = &*self.inner;
        let platform = ModelSettings::platform();
        let set = async { if *owner == platform { Ok(ModelSettings::default()) } else { self.settings(owner).await } };
        let (below, mut set) = futures::try_join!(self.settings(&platform), set)?;
        let versions = (below.version, set.version);
        let shared = if set.version == 0 { &platform } else { owner };
        if let Some(known) = inner.built.get(shared).await.filter(|known| known.versions == versions) {
            return Ok(known);
        }
        for (name, provider) in set.providers.iter_mut().filter(|(_, provider)| provider.enabled) {
            // Perhaps it was allowed when it was set. All others go on.
            if let Err(error) = check::base_url("base_url", &provider.base_url, Some(&inner.reach)) {
                tracing::warn!(org = %owner, provider = name, %error, "a model provider is left out");
                provider.enabled = false;
            }
        }
        let open = |org: &OrgId, name: &str, key: &SealedKey| self.opened(org, name, key);
        let layers = (Layer { org: &platform, settings: &below }, Layer { org: owner, settings: &set });
        let Resolved { options, owned } = resolve(&inner.table, &layers.0, &layers.1, open);
        let models = OpenAiModels::built(options, &inner.endpoints, |name| owned.of(name));
        let models = models.map_err(|error| Error::internal(format!("stored model settings: {error}")))?;
        let known = Arc::new(Known { versions, models });
        inner.built.insert(shared.clone(), Arc::clone(&known)).await;
        Ok(known)
    }

    fn opened(&self, org: &OrgId, name: &str, key: &SealedKey) -> Option<Secret> {
        match self.inner.vault.open(org, name, key) {
            Ok(key) => Some(key),
            Err(error) => {
                tracing::error!(%org, provider = name, %error, "a model provider cannot be used");
                None
            }
        }
    }

    /// What the model list of an owner's own endpoint names, and the URL that is set for that endpoint.
    pub(crate) async fn available(&self, owner: &OrgId, name: &str) -> Result<(String, Vec<String>)> {
        let settings = self.settings(owner).await?;
        let set = settings.providers.get(name).filter(|set| set.is_own());
        let Some(set) = set else {
            let shown: String = name.chars().take(80).collect();
            return Err(Error::not_found("own model provider", shown));
        };
        if let Some(key) = &set.key {
            // A key that cannot be read is an error here, and no reason to ask without it.
            self.inner.vault.open(owner, name, key)?;
        }
        let base_url = set.base_url.clone();
        // One that is not in use yet may be asked: that is how its models are found.
        let mut asked = settings.clone();
        asked.providers.retain(|there, _| there == name);
        asked.providers.values_mut().for_each(|set| set.enabled = true);
        let platform = ModelSettings::platform();
        let (below, tenant) = if *owner == platform {
            (asked, ModelSettings::default())
        } else {
            (self.settings(&platform).await?, asked)
        };
        let open = |org: &OrgId, name: &str, key: &SealedKey| self.opened(org, name, key);
        let layers = (Layer { org: &platform, settings: &below }, Layer { org: owner, settings: &tenant });
        let Resolved { options, owned } = resolve(&self.inner.table, &layers.0, &layers.1, open);
        let provider = options.providers.get(name).ok_or_else(|| Error::not_found("model provider", name))?;
        if *owner != platform && owned.of(name) == Owned::Platform {
            // It has a key that the platform's endpoint does not take.
            return Err(Error::not_found("own model provider", name));
        }
        let found = self.inner.endpoints.available(name, provider, owned.of(name)).await;
        Ok((base_url, found?))
    }

    pub(crate) async fn forget(&self, owner: &OrgId) {
        if *owner == ModelSettings::platform() {
            self.inner.fresh.invalidate_all();
        } else {
            self.inner.fresh.invalidate(owner).await;
        }
    }

    pub(crate) fn table(&self) -> &folio_llm::Options {
        &self.inner.table
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.inner.vault
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.inner.reach
    }

    pub(crate) fn store(&self) -> &dyn ProviderStore {
        self.inner.store.as_ref()
    }

    pub(crate) fn access(&self) -> &dyn AccessStore {
        self.inner.access.as_ref()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.environment.now()
    }
}

#[async_trait]
impl Models for Providers {
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>> {
        Ok(self.models_of(org).await?.current())
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.of(&request.org).await?.stream(request).await
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        self.of(&request.org).await?.complete(request).await
    }

    async fn embed(&self, org: &OrgId, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        self.of(org).await?.embed(org, model, texts).await
    }
}

impl Providers {
    async fn of(&self, org: &OrgId) -> Result<OpenAiModels, ModelError> {
        self.models_of(org).await.map_err(|error| ModelError::NotRead(error.to_string()))
    }
}
