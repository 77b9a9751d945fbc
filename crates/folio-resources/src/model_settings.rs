//! Model settings: model providers, default model and fallback models of one owner (an organization, or the platform
//! for all organizations). An owner has one settings record, which its first change creates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use folio_types::models::{ModelOptions, OutputLimitField};
use folio_types::op::{OpResult, Write};
use folio_types::{Error, Reason, Result, Timestamp, plain_id};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Condition, Plan, Resource};

plain_id!(
    /// The model settings of an owner.
    ModelSettingsId, "mdl", "model settings"
);

/// Maximum number of providers of an owner.
// proto: ListProvidersRequest.page_size "at most {} providers."
const PROVIDERS_MAX: usize = 32;
/// Maximum number of models of all providers of an owner. Every refresh of a catalogue reads them.
// proto: Provider.models "at most {} for"
const MODELS_MAX: usize = 300;
/// Maximum number of fallback models.
// proto: SetModelDefaultsRequest.fallbacks "At most {} models"
const FALLBACKS_MAX: usize = 8;
/// Maximum number of names in the model lists of all endpoints of an owner.
// proto: Provider.available_models "at most {} names"
const AVAILABLE_MAX: usize = 2_000;
/// Maximum total bytes of the names in the model lists of all endpoints of an owner.
// proto: Provider.available_models "{} KiB for"
const AVAILABLE_BYTES_MAX: usize = 64 * 1024;
/// Maximum characters of a provider name.
// proto: Provider.name "1 to {} characters"
const PROVIDER_NAME_CHARS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Incremented by every change. A write states the version that it expects. 0: never stored.
    pub version: u64,
    /// Time of the first change.
    pub created_at: Timestamp,
    /// Empty: the platform's default model.
    pub default_model: String,
    /// Fallback models, best first, used if the endpoint of a model is unavailable or rate-limited. Empty: the
    /// platform's fallback models.
    pub fallbacks: Vec<String>,
    /// Empty: the platform's embedding model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub embedding_model: String,
    /// Empty: the platform's rerank model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub rerank_model: String,
    /// Empty: the platform's model for descriptions of images.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image_model: String,
    /// Providers by name. An organization's provider replaces the platform's provider of the same name.
    pub providers: BTreeMap<String, Provider>,
}

folio_types::with_defaults! {
    /// An endpoint that supports the OpenAI chat completions protocol.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Provider {
        pub enabled: bool = true,
        /// URL prefix of `chat/completions` and `models`. Empty: the URL of the platform's provider of the same name.
        pub base_url: String = String::new(),
        /// Encrypted API key. None: the endpoint is called without the owner's key.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key: Option<SealedKey> = None,
        /// Time at which the key was stored. None: no key, or a key that an older version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub key_stored_at: Option<Timestamp> = None,
        /// Request field that limits output tokens.
        pub output_limit_field: OutputLimitField = OutputLimitField::default(),
        /// If true, streaming requests ask the endpoint to report the token usage.
        pub stream_usage: bool = true,
        /// Models by the name that requests use.
        #[serde(serialize_with = "omit_new_fields", deserialize_with = "ignore_unknown_fields")]
        pub models: BTreeMap<String, ModelOptions> = BTreeMap::new(),
        /// Sorted names from the newest model list of the endpoint.
        pub available: Vec<String> = Vec::new(),
        /// Context sizes in tokens that the newest model list states, by model name.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub available_context_tokens: BTreeMap<String, u32> = BTreeMap::new(),
        /// Time at which `available` was read.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub discovered_at: Option<Timestamp> = None,
    }
}

impl Provider {
    /// Returns true if the provider has its own URL or key. The models, sizes and prices of such a provider apply. A
    /// provider without URL and key only restricts the platform's provider of the same name.
    pub fn is_own(&self) -> bool {
        !self.base_url.is_empty() || self.key.is_some()
    }
}

/// A secret, such as the API key of a provider or the secret of a webhook endpoint, encrypted with AES-256-GCM. The
/// organization and the name of the secret are authenticated, so that a copy in another record cannot be decrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedKey {
    /// Id of the master key.
    pub master: String,
    /// Base64 of nonce, ciphertext and tag.
    pub sealed: String,
}

/// Deserializes stored models and ignores unknown fields of newer versions, so that two versions can run concurrently.
/// In settings files, an unknown field is an error.
fn ignore_unknown_fields<'de, D: Deserializer<'de>>(stored: D) -> Result<BTreeMap<String, ModelOptions>, D::Error> {
    let fields = serde_json::to_value(ModelOptions::default()).map_err(D::Error::custom)?;
    let models = BTreeMap::<String, Map<String, Value>>::deserialize(stored)?;
    let read = models.into_iter().map(|(name, mut options)| {
        options.retain(|field, _| fields.get(field).is_some());
        Ok((name, serde_json::from_value(Value::Object(options)).map_err(D::Error::custom)?))
    });
    read.collect()
}

/// The fields of a model that were added after the first stored format.
const NEW_FIELDS: &[&str] = &["evidence", "kind", "dimensions", "query_prefix", "passage_prefix"];

/// Serializes models. A field that was added after the first stored format is omitted if it has its default, so that
/// older versions can read the models.
fn omit_new_fields<S: Serializer>(models: &BTreeMap<String, ModelOptions>, stored: S) -> Result<S::Ok, S::Error> {
    let defaults = serde_json::to_value(ModelOptions::default()).map_err(S::Error::custom)?;
    let written = models.iter().map(|(name, options)| {
        let mut options = serde_json::to_value(options).map_err(S::Error::custom)?;
        if let Some(fields) = options.as_object_mut() {
            fields.retain(|field, value| !NEW_FIELDS.contains(&field.as_str()) || defaults.get(field) != Some(&*value));
        }
        Ok((name, options))
    });
    written.collect::<Result<BTreeMap<_, _>, S::Error>>()?.serialize(stored)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSettingsChange {
    /// Creates or replaces a provider. The caller has validated its URL and models.
    SetProvider { name: String, provider: Box<Provider> },
    /// Removes a provider. The platform's provider with the same name, if any, takes effect again.
    RemoveProvider { name: String },
    /// Sets the default models and the fallback models. The caller has verified that the models exist.
    SetDefaults(ModelDefaults),
    /// Stores the sorted model list of an endpoint, truncated to the owner's bounds, and the context sizes that the list
    /// states. `VERSION_CONFLICT` if the provider does not have the URL from which the list was read.
    SetAvailable {
        name: String,
        base_url: String,
        available: Vec<String>,
        /// By name, in tokens.
        context_tokens: BTreeMap<String, u32>,
    },
    /// Replaces stored API keys, by provider name, with the same keys under another master key.
    ReplaceKeys(BTreeMap<String, SealedKey>),
    /// Always refused: settings are erased together with their organization; the platform's are never erased.
    Delete,
}

/// The models of calls that name none. None: unchanged. Empty: those of the platform.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ModelDefaults {
    /// The chat model.
    pub default_model: Option<String>,
    /// Fallback models of chat models, best first.
    pub fallbacks: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank_model: Option<String>,
    /// A chat model with vision, which describes images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_model: Option<String>,
}

/// Validates a provider name: 1 to 64 characters of a-z, 0-9, `-`, `_` and `.`.
pub fn check_provider_name(field: &str, name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= PROVIDER_NAME_CHARS && name.chars().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid_field(field, format!("must be 1 to {PROVIDER_NAME_CHARS} characters of a-z, 0-9, -, _ and .")))
}

impl ModelSettings {
    /// Returns the id of every settings record. Owners are distinguished by the organization in the key of the record.
    pub fn fixed_id() -> &'static ModelSettingsId {
        static ID: LazyLock<ModelSettingsId> = LazyLock::new(|| ModelSettingsId::derive(&["models"]));
        &ID
    }

    /// Returns the error for a change that is based on an older version.
    pub fn version_conflict() -> Error {
        let message = "the model settings have a newer version; read them again and repeat the change";
        Error::version_conflict(message)
    }

    fn no_provider(name: &str) -> Error {
        let shown: String = name.chars().take(80).collect();
        Error::not_found("model provider", shown)
    }

    fn changed(mut self, change: &ModelSettingsChange, at: Timestamp) -> Result<Self> {
        match change {
            ModelSettingsChange::SetProvider { name, provider } => {
                check_provider_name("name", name)?;
                self.providers.insert(name.clone(), (**provider).clone());
            }
            ModelSettingsChange::RemoveProvider { name } => {
                self.providers.remove(name).ok_or_else(|| Self::no_provider(name))?;
            }
            ModelSettingsChange::SetDefaults(defaults) => {
                let ModelDefaults { default_model, fallbacks, embedding_model, rerank_model, image_model } =
                    defaults.clone();
                self.default_model = default_model.unwrap_or(self.default_model);
                self.fallbacks = fallbacks.unwrap_or(self.fallbacks);
                self.embedding_model = embedding_model.unwrap_or(self.embedding_model);
                self.rerank_model = rerank_model.unwrap_or(self.rerank_model);
                self.image_model = image_model.unwrap_or(self.image_model);
            }
            ModelSettingsChange::SetAvailable { name, base_url, available, context_tokens } => {
                let others = self.providers.iter().filter(|(other, _)| *other != name).map(|(_, provider)| provider);
                let available = names_within_bounds(available, others);
                let provider = self.providers.get_mut(name).ok_or_else(|| Self::no_provider(name))?;
                if provider.base_url != *base_url {
                    return Err(Self::version_conflict());
                }
                let stated = available.iter().filter_map(|name| Some((name.clone(), *context_tokens.get(name)?)));
                provider.available_context_tokens = stated.collect();
                (provider.available, provider.discovered_at) = (available, Some(at));
            }
            ModelSettingsChange::ReplaceKeys(keys) => {
                for (name, key) in keys {
                    let stored = self.providers.get_mut(name).and_then(|provider| provider.key.as_mut());
                    stored.ok_or_else(|| Self::no_provider(name))?.clone_from(key);
                }
            }
            ModelSettingsChange::Delete => {
                return Err(Error::precondition(
                    Reason::InUse,
                    "model settings cannot be deleted: they are erased together with their organization",
                ));
            }
        }
        self.check()?;
        Ok(self)
    }

    /// Validates the bounds of the whole settings, and that enabled models have different names.
    fn check(&self) -> Result<()> {
        let full = |kind: &str, max: usize| {
            Error::exhausted(Reason::QuotaExceeded, format!("an organization or the platform has at most {max} {kind}"))
        };
        if self.fallbacks.len() > FALLBACKS_MAX {
            return Err(Error::invalid_field("fallbacks", format!("has more than {FALLBACKS_MAX} models")));
        }
        if self.providers.len() > PROVIDERS_MAX {
            return Err(full("model providers", PROVIDERS_MAX));
        }
        if self.providers.values().map(|provider| provider.models.len()).sum::<usize>() > MODELS_MAX {
            return Err(full("models in all its providers", MODELS_MAX));
        }
        let (names, bytes) = available_size(self.providers.values());
        if names > AVAILABLE_MAX || bytes > AVAILABLE_BYTES_MAX {
            let kind = format!("names and {} KiB in all model lists of its endpoints", AVAILABLE_BYTES_MAX / 1024);
            return Err(full(&kind, AVAILABLE_MAX));
        }
        let mut providers_by_model: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, provider) in self.providers.iter().filter(|(_, provider)| provider.enabled && provider.is_own()) {
            for model in provider.models.iter().filter(|(_, model)| model.enabled).map(|(model, _)| model) {
                if let Some(other) = providers_by_model.insert(model, name) {
                    let problem = format!(
                        "providers {other} and {name} both have a model {model}; rename one and set its `upstream`"
                    );
                    return Err(Error::invalid_field("models", problem).with_reason(Reason::NameTaken));
                }
            }
        }
        Ok(())
    }
}

/// Returns the first names of a model list, as many as the owner's bounds permit. `others`: the other providers of the
/// owner, whose lists count toward the bounds.
fn names_within_bounds<'a>(names: &[String], others: impl Iterator<Item = &'a Provider>) -> Vec<String> {
    let (mut count, mut bytes) = available_size(others);
    let fits = |name: &&String| {
        (count, bytes) = (count + 1, bytes + name.len());
        count <= AVAILABLE_MAX && bytes <= AVAILABLE_BYTES_MAX
    };
    names.iter().take_while(fits).cloned().collect()
}

/// Returns the number and total bytes of the names in the model lists of providers.
fn available_size<'a>(providers: impl Iterator<Item = &'a Provider>) -> (usize, usize) {
    let names = providers.flat_map(|provider| &provider.available);
    names.fold((0, 0), |(count, bytes), name| (count + 1, bytes + name.len()))
}

impl Resource for ModelSettings {
    type Id = ModelSettingsId;
    type Change = ModelSettingsChange;
    type Filter = ();
    const KIND: &'static str = "model_settings";
    const ID_PREFIX: &'static str = ModelSettingsId::PREFIX;
    const DELETE: ModelSettingsChange = ModelSettingsChange::Delete;

    fn derive_id(parts: &[&str]) -> ModelSettingsId {
        ModelSettingsId::derive(parts)
    }

    fn id(&self) -> &ModelSettingsId {
        Self::fixed_id()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn conditions((): &()) -> Vec<Condition> {
        Vec::new()
    }

    fn apply(id: &ModelSettingsId, write: &Write<ModelSettingsChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let before = before.unwrap_or_else(|| Self { created_at: write.at, ..Self::default() });
        let mut settings = before.clone().changed(&write.change, write.at)?;
        if before.version == 0 || settings != before {
            settings.version = before.version + 1;
        }
        let result = OpResult::Resource { id: id.to_string(), name: String::new() };
        Ok(Plan { after: Some(settings), result })
    }
}

#[cfg(test)]
mod tests;
