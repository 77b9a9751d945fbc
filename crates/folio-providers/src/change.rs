//! Changes of model settings that need the platform's providers, the vault or an endpoint. [`ModelSettings`] validates
//! the settings themselves.

use std::collections::BTreeMap;

use folio_llm::{ModelOptions, ProviderOptions};
use folio_resources::{
    ModelDefaults, ModelSettings, ModelSettingsChange, Organization, OrganizationFilter, Provider, check_provider_name,
};
use folio_types::models::OutputLimitField;
use folio_types::op::{Expected, OpState, Write, WriteOutcome};
use folio_types::page::{Order, PageRequest};
use folio_types::{Error, Etag, OrgId, RequestId, Result, Secret, Timestamp, limits};
use tokio_util::sync::CancellationToken;

use crate::check;
use crate::models::Providers;

const ATTEMPTS: u32 = 5;

/// Changes of a provider. None: unchanged, or the default for a new provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    pub enabled: Option<bool>,
    /// Empty: the URL of the platform's provider with this name. A new URL deletes the stored API key, which is valid
    /// for the old URL only, and the list of the endpoint's models.
    pub base_url: Option<String>,
    /// Empty: deletes the stored key.
    pub api_key: Option<Secret>,
    /// Name of the request field that limits the output tokens.
    pub output_limit_field: Option<OutputLimitField>,
    /// If true, streaming requests ask for usage.
    pub stream_usage: Option<bool>,
    /// Replaces all models of the provider.
    pub models: Option<BTreeMap<String, ModelOptions>>,
}

/// Result of re-encrypting the stored keys with the newest master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReencryptedKeys {
    /// Number of keys whose master key is missing.
    pub lost: usize,
    /// Number of owners whose keys could not be read or written.
    pub failed: usize,
}

impl Providers {
    /// Creates or updates a provider of the owner, which is the tenant of `write`. Returns the new settings.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `NAME_TAKEN`, `QUOTA_EXCEEDED`; `SECRETS_UNAVAILABLE` for a key without a master key;
    /// `VERSION_CONFLICT` if the settings have another version than `etag` (None: any).
    pub async fn update(
        &self,
        write: Write<()>,
        name: &str,
        etag: Option<Etag>,
        change: ProviderChange,
    ) -> Result<ModelSettings> {
        check_provider_name("name", name)?;
        let (owner, at) = (write.org.clone(), write.at);
        let platform = self.platform_provider(&owner, name).await?;
        self.change(write, etag, |settings| {
            let stored = settings.providers.get(name).cloned().unwrap_or_default();
            let provider = self.apply((&owner, at), name, stored, platform.as_ref(), &change)?;
            Ok(ModelSettingsChange::SetProvider { name: name.to_owned(), provider: Box::new(provider) })
        })
        .await
    }

    /// Deletes a provider. The platform's provider with this name becomes effective again.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`.
    pub async fn delete(&self, write: Write<()>, name: &str, etag: Option<Etag>) -> Result<ModelSettings> {
        self.change(write, etag, |_| Ok(ModelSettingsChange::RemoveProvider { name: name.to_owned() })).await
    }

    /// Sets the default models and the fallback models.
    ///
    /// # Errors
    /// `MODEL_NOT_AVAILABLE` for a model that the owner does not have, `INVALID_FIELD`, `VERSION_CONFLICT`.
    pub async fn set_defaults(
        &self,
        write: Write<()>,
        etag: Option<Etag>,
        defaults: ModelDefaults,
    ) -> Result<ModelSettings> {
        let catalogue = self.models_of(&write.org).await?.current_catalogue();
        let exists = |name: &String| match catalogue.get(name) {
            Some(_) => Ok(()),
            None => catalogue.for_chat(Some(name)).map(drop),
        };
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        named(&defaults.default_model).iter().try_for_each(exists)?;
        defaults.fallbacks.iter().flatten().try_for_each(exists)?;
        if let Some(name) = named(&defaults.embedding_model) {
            catalogue.for_embeddings(Some(&name))?;
        }
        if let Some(name) = named(&defaults.rerank_model) {
            catalogue.for_reranking(Some(&name))?;
        }
        if let Some(name) = named(&defaults.image_model) {
            catalogue.for_images(Some(&name))?;
        }
        let change = ModelSettingsChange::SetDefaults(defaults);
        self.change(write, etag, |_| Ok(change.clone())).await
    }

    /// Requests the model list of an endpoint of the owner and stores it, truncated to the bounds of the settings.
    /// Returns the new settings.
    ///
    /// # Errors
    /// `NOT_FOUND` if the owner has no own provider of this name, `SECRETS_UNAVAILABLE`, errors of the endpoint;
    /// `VERSION_CONFLICT` if the URL changed during the request.
    pub async fn discover(&self, write: Write<()>, name: &str) -> Result<ModelSettings> {
        let (base_url, listed) = self.list_endpoint_models(&write.org, name).await?;
        let sizes = listed.iter().filter_map(|model| Some((model.name.clone(), model.context_tokens?)));
        let context_tokens = sizes.collect();
        let available = listed.into_iter().map(|model| model.name).collect();
        let change = ModelSettingsChange::SetAvailable { name: name.to_owned(), base_url, available, context_tokens };
        self.change(write, None, |_| Ok(change.clone())).await
    }

    /// Re-encrypts every stored key with the newest master key. A failure affects only its owner. Returns None if
    /// `ended` was cancelled before the last owner. Fails if the organizations cannot be listed.
    pub async fn reencrypt_keys(&self, ended: &CancellationToken) -> Result<Option<ReencryptedKeys>> {
        let mut renewed = ReencryptedKeys::default();
        let (mut owners, mut is_last) = (vec![OrgId::platform()], false);
        let mut page = PageRequest { size: limits::PAGE_SIZE_MAX, order: Order::Oldest, ..PageRequest::default() };
        loop {
            for owner in &owners {
                if ended.is_cancelled() {
                    return Ok(None);
                }
                match self.reencrypt_keys_of(owner).await {
                    Ok(lost) => renewed.lost += lost,
                    Err(error) => {
                        tracing::warn!(org = %owner, %error, "cannot renew the keys of model providers");
                        renewed.failed += 1;
                    }
                }
            }
            if is_last {
                return Ok(Some(renewed));
            }
            let organizations = self.stores().of::<Organization>();
            let found = organizations.list(&OrgId::platform(), &OrganizationFilter::default(), &page).await?;
            owners = found.items.into_iter().map(|organization| organization.id).collect();
            page.token = found.next;
            is_last = page.token.is_none();
        }
    }

    async fn reencrypt_keys_of(&self, owner: &OrgId) -> Result<usize> {
        let settings = self.settings(owner).await?;
        let keys = || settings.providers.iter().filter_map(|(name, provider)| Some((name, provider.key.as_ref()?)));
        let lost = keys().filter(|(name, key)| self.vault().open(owner, name, key).is_err()).count();
        if keys().any(|(name, key)| self.vault().reencrypt(owner, name, key).is_some()) {
            let environment = self.environment();
            let key = RequestId::generate(environment);
            let write = Write::by_platform(owner.clone(), key, environment.now(), Expected::Absent, ());
            self.change(write, None, |settings| {
                let renewed = settings.providers.iter().filter_map(|(name, provider)| {
                    let key = self.vault().reencrypt(owner, name, provider.key.as_ref()?)?;
                    Some((name.clone(), key))
                });
                Ok(ModelSettingsChange::ReplaceKeys(renewed.collect()))
            })
            .await?;
        }
        Ok(lost)
    }

    /// Returns the platform's provider with a name, as seen by an organization. For the platform: the provider in the
    /// settings file.
    async fn platform_provider(&self, owner: &OrgId, name: &str) -> Result<Option<ProviderOptions>> {
        if *owner == OrgId::platform() {
            return Ok(self.file_settings().providers.get(name).cloned());
        }
        let platform = self.models_of(&OrgId::platform()).await?;
        Ok(platform.options().providers.get(name).cloned())
    }

    /// Returns the provider after a change of the owner at a time.
    fn apply(
        &self,
        (owner, at): (&OrgId, Timestamp),
        name: &str,
        stored: Provider,
        platform: Option<&ProviderOptions>,
        change: &ProviderChange,
    ) -> Result<Provider> {
        let policy = (*owner != OrgId::platform()).then(|| self.address_policy());
        let mut new = stored;
        if let Some(url) = &change.base_url {
            let url = url.trim();
            check::base_url("base_url", url, policy)?;
            if new.base_url != url {
                (new.key, new.key_stored_at) = (None, None);
                (new.available, new.discovered_at) = (Vec::new(), None);
                new.available_context_tokens.clear();
                url.clone_into(&mut new.base_url);
            }
        }
        let renewed = new.key.as_ref().and_then(|key| self.vault().reencrypt(owner, name, key));
        new.key = renewed.or(new.key);
        if let Some(key) = &change.api_key {
            check::api_key("api_key", key)?;
            new.key = if key.is_empty() { None } else { Some(self.vault().seal(owner, name, key)?) };
            new.key_stored_at = new.key.is_some().then_some(at);
        }
        new.enabled = change.enabled.unwrap_or(new.enabled);
        new.output_limit_field = change.output_limit_field.unwrap_or(new.output_limit_field);
        new.stream_usage = change.stream_usage.unwrap_or(new.stream_usage);
        if let Some(models) = &change.models {
            new.models.clone_from(models);
        }
        if new.base_url.is_empty() && platform.is_none() {
            return Err(Error::invalid_field("base_url", "is missing: the platform has no provider of this name"));
        }
        let is_own_key_at_platform_url = *owner != OrgId::platform() && new.base_url.is_empty() && new.key.is_some();
        if is_own_key_at_platform_url && !platform.is_some_and(ProviderOptions::takes_own_keys) {
            let problem = "the platform's provider of this name does not accept organization keys; set your own base_url or omit api_key";
            return Err(Error::invalid_field("api_key", problem));
        }
        check::models("models", &new, platform)?;
        Ok(new)
    }

    /// Writes the change that `change` computes from the stored settings. After a version conflict, computes and writes
    /// it again, unless the request has an etag.
    async fn change(
        &self,
        write: Write<()>,
        etag: Option<Etag>,
        change: impl Fn(&ModelSettings) -> Result<ModelSettingsChange>,
    ) -> Result<ModelSettings> {
        let (owner, store) = (write.org.clone(), self.stores().of::<ModelSettings>());
        for _ in 0..ATTEMPTS {
            let stored = self.settings(&owner).await?;
            if etag.is_some_and(|etag| etag.version() != stored.version) {
                return Err(ModelSettings::version_conflict());
            }
            let expected = if stored.version == 0 { Expected::Absent } else { Expected::Version(stored.version) };
            let Write { org, op, digest, by, at, .. } = write.clone();
            let write = Write { org, op, digest, by, at, expected, change: change(&stored)? };
            match store.decide(ModelSettings::fixed_id(), write).await? {
                WriteOutcome::Row(row) if matches!(row.state, OpState::Done(_)) => {
                    self.evict(&owner).await;
                    return self.settings(&owner).await;
                }
                WriteOutcome::Row(_) => return Err(ModelSettings::version_conflict()),
                WriteOutcome::VersionMismatch => {}
            }
        }
        Err(ModelSettings::version_conflict())
    }
}
