//! Changes of model settings: conditional on the version that was read, with every key under the newest master key.

use std::collections::BTreeMap;

use folio_llm::{ModelOptions, ProviderOptions};
use folio_types::models::{ModelSettings, OutputLimitField, Provider};
use folio_types::{Code, Error, OrgId, Reason, Result, Secret};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::check;
use crate::models::Providers;

/// Maximum attempts of a change without an expected version.
const ATTEMPTS: u32 = 5;
/// Organizations per page.
const PAGE: usize = 100;

/// Changes of a provider. None: unchanged, or the default for a new provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderChange {
    /// Enables or disables the provider.
    pub enabled: Option<bool>,
    /// Base URL. Empty: the URL of the platform's provider with this name. Another URL removes the stored key, so that
    /// it is never sent to a URL that it was not given for, and the list of the endpoint's models.
    pub base_url: Option<String>,
    /// API key. Empty: removes the key.
    pub api_key: Option<Secret>,
    /// Name of the request field with the limit of output tokens.
    pub output_limit_field: Option<OutputLimitField>,
    /// Requests usage in streams.
    pub stream_usage: Option<bool>,
    /// All models of the provider.
    pub models: Option<BTreeMap<String, ModelOptions>>,
}

/// Result of moving the stored keys to the newest master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renewed {
    /// Number of keys whose master key is missing.
    pub lost: usize,
    /// Number of owners whose keys could not be read or written.
    pub failed: usize,
}

impl Providers {
    /// Creates or changes a provider. Returns the new settings.
    ///
    /// # Errors
    /// `INVALID_FIELD`, `NAME_TAKEN`, `QUOTA_EXCEEDED`; `SECRETS_UNAVAILABLE` for a key without a master key;
    /// `VERSION_CONFLICT` if the settings have another version than `expected` (0: any).
    pub async fn update(
        &self,
        owner: &OrgId,
        name: &str,
        expected: u64,
        change: ProviderChange,
    ) -> Result<ModelSettings> {
        check::name("name", name)?;
        let below = self.below(owner, name).await?;
        self.change(owner, expected, |settings| {
            let there = settings.providers.remove(name).unwrap_or_default();
            let new = self.changed(owner, name, there, below.as_ref(), &change)?;
            settings.providers.insert(name.to_owned(), new);
            Ok(())
        })
        .await
    }

    /// Deletes a provider. The platform's provider with this name becomes effective again.
    ///
    /// # Errors
    /// `NOT_FOUND`, `VERSION_CONFLICT`.
    pub async fn delete(&self, owner: &OrgId, name: &str, expected: u64) -> Result<ModelSettings> {
        self.change(owner, expected, |settings| {
            let shown: String = name.chars().take(80).collect();
            settings.providers.remove(name).map(drop).ok_or_else(|| Error::not_found("model provider", shown))
        })
        .await
    }

    /// Sets the default model and the fallback models, best first.
    ///
    /// # Errors
    /// `MODEL_NOT_AVAILABLE` for a model that the owner does not have, `INVALID_FIELD`, `VERSION_CONFLICT`.
    pub async fn set_defaults(
        &self,
        owner: &OrgId,
        expected: u64,
        default_model: Option<String>,
        fallbacks: Option<Vec<String>>,
    ) -> Result<ModelSettings> {
        let catalogue = self.models_of(owner).await?.current();
        let there = |name: &String| match catalogue.get(name) {
            Some(_) => Ok(()),
            None => catalogue.for_chat(Some(name)).map(drop),
        };
        default_model.iter().filter(|name| !name.is_empty()).try_for_each(there)?;
        fallbacks.iter().flatten().try_for_each(there)?;
        if fallbacks.as_ref().is_some_and(|list| list.len() > check::FALLBACKS_MAX) {
            return Err(Error::invalid_field("fallbacks", format!("has more than {} models", check::FALLBACKS_MAX)));
        }
        self.change(owner, expected, |settings| {
            settings.default_model = default_model.clone().unwrap_or(std::mem::take(&mut settings.default_model));
            settings.fallbacks = fallbacks.clone().unwrap_or(std::mem::take(&mut settings.fallbacks));
            Ok(())
        })
        .await
    }

    /// Queries an own endpoint for its models and stores the list, cut to the space that the owner's other lists leave.
    /// Returns the new settings.
    ///
    /// # Errors
    /// `NOT_FOUND` if the owner has no such provider of its own, `SECRETS_UNAVAILABLE`, errors of the endpoint;
    /// `VERSION_CONFLICT` if its URL changed during the query.
    pub async fn discover(&self, owner: &OrgId, name: &str) -> Result<ModelSettings> {
        let (asked, available) = self.available(owner, name).await?;
        let now = self.now();
        self.change(owner, 0, |settings| {
            let others = settings.providers.iter().filter(|(other, _)| *other != name).map(|(_, other)| other);
            let available = check::listed(&available, others);
            let there = settings.providers.get_mut(name);
            let there = there.ok_or_else(|| Error::not_found("model provider", name))?;
            if there.base_url != asked {
                return Err(moved());
            }
            (there.available, there.discovered_at) = (available, Some(now));
            Ok(())
        })
        .await
    }

    /// Encrypts every stored key with the newest master key. A failure affects only its owner. Returns None if it was
    /// cancelled before the end.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: the organizations cannot be listed.
    pub async fn renew_keys(&self, ended: &CancellationToken) -> Result<Option<Renewed>> {
        let (mut renewed, mut after) = (Renewed::default(), None);
        let mut owners = vec![ModelSettings::platform()];
        while !owners.is_empty() {
            for owner in &owners {
                if ended.is_cancelled() {
                    return Ok(None);
                }
                match self.renew(owner).await {
                    Ok(lost) => renewed.lost += lost,
                    Err(error) => {
                        tracing::warn!(org = %owner, %error, "cannot renew the keys of model providers");
                        renewed.failed += 1;
                    }
                }
            }
            let page = self.access().organizations(after.as_ref(), PAGE).await?;
            owners = page.into_iter().map(|organization| organization.id).collect();
            after = owners.last().cloned().or(after);
        }
        Ok(Some(renewed))
    }

    async fn renew(&self, owner: &OrgId) -> Result<usize> {
        let settings = self.settings(owner).await?;
        let keys = || settings.providers.iter().filter_map(|(name, set)| Some((name, set.key.as_ref()?)));
        let lost = keys().filter(|(name, key)| self.vault().open(owner, name, key).is_err()).count();
        if keys().any(|(name, key)| self.vault().renewed(owner, name, key).is_some()) {
            self.change(owner, 0, |_| Ok(())).await?;
        }
        Ok(lost)
    }

    /// Returns the platform's provider with a name, as seen by an organization. For the platform: the provider in the
    /// settings file.
    async fn below(&self, owner: &OrgId, name: &str) -> Result<Option<ProviderOptions>> {
        if *owner == ModelSettings::platform() {
            return Ok(self.table().providers.get(name).cloned());
        }
        let platform = self.models_of(&ModelSettings::platform()).await?;
        Ok(platform.options().providers.get(name).cloned())
    }

    fn changed(
        &self,
        owner: &OrgId,
        name: &str,
        there: Provider,
        below: Option<&ProviderOptions>,
        change: &ProviderChange,
    ) -> Result<Provider> {
        let reach = (*owner != ModelSettings::platform()).then(|| self.reach());
        let mut new = there;
        if let Some(url) = &change.base_url {
            let url = url.trim();
            check::base_url("base_url", url, reach)?;
            if new.base_url != url {
                new.key = None;
                (new.available, new.discovered_at) = (Vec::new(), None);
                url.clone_into(&mut new.base_url);
            }
        }
        if let Some(key) = &change.api_key {
            check::api_key("api_key", key)?;
            new.key = if key.is_empty() { None } else { Some(self.vault().seal(owner, name, key)?) };
        }
        new.enabled = change.enabled.unwrap_or(new.enabled);
        new.output_limit_field = change.output_limit_field.unwrap_or(new.output_limit_field);
        new.stream_usage = change.stream_usage.unwrap_or(new.stream_usage);
        if let Some(models) = &change.models {
            new.models.clone_from(models);
        }
        if new.base_url.is_empty() && below.is_none() {
            return Err(Error::invalid_field("base_url", "is missing: the platform has no provider of this name"));
        }
        let foreign = *owner != ModelSettings::platform() && new.base_url.is_empty() && new.key.is_some();
        if foreign && !below.is_some_and(ProviderOptions::takes_own_keys) {
            let what = "the platform's provider of this name takes no keys of organizations: give a base URL of your own, or no key";
            return Err(Error::invalid_field("api_key", what));
        }
        check::models("models", &new, below)?;
        Ok(new)
    }

    /// Reads, changes and stores, until no concurrent change interferes.
    async fn change(
        &self,
        owner: &OrgId,
        expected: u64,
        change: impl Fn(&mut ModelSettings) -> Result<()>,
    ) -> Result<ModelSettings> {
        for _ in 0..ATTEMPTS {
            let there = self.settings(owner).await?;
            if expected > 0 && expected != there.version {
                return Err(moved());
            }
            let mut new = ModelSettings { version: there.version.saturating_add(1), ..there };
            change(&mut new)?;
            check::whole(&new)?;
            for (name, provider) in &mut new.providers {
                let renewed = provider.key.as_ref().and_then(|key| self.vault().renewed(owner, name, key));
                provider.key = renewed.or(provider.key.take());
            }
            if self.store().change(owner, new.clone()).boxed().await? {
                self.forget(owner).await;
                return Ok(new);
            }
        }
        Err(moved())
    }
}

fn moved() -> Error {
    Error::new(Code::Aborted, Reason::VersionConflict, "the model settings were changed concurrently; read them again")
}
