//! Model settings: model providers, default model and fallback models of one owner (an organization, or the platform
//! for all organizations). An owner has one settings record, which its first change creates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use folio_types::models::{ModelOptions, OutputLimitField};
use folio_types::op::{OpResult, Write};
use folio_types::{Code, Error, Reason, Result, Timestamp, plain_id};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Condition, ListRow, Plan, Resource};

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

/// Serializes models. A field that was added after the first stored format is omitted if it has its default, so that
/// older versions can read the models.
fn omit_new_fields<S: Serializer>(models: &BTreeMap<String, ModelOptions>, stored: S) -> Result<S::Ok, S::Error> {
    let written = models.iter().map(|(name, options)| {
        let mut options = serde_json::to_value(options).map_err(S::Error::custom)?;
        if let Some(fields) = options.as_object_mut() {
            fields.retain(|field, value| field != "evidence" || *value != Value::Bool(false));
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
    /// Sets the default model (empty: the platform's) and the fallback models, best first (empty: the platform's).
    /// None: unchanged. The caller has verified that the models exist.
    SetDefaults { default_model: Option<String>, fallbacks: Option<Vec<String>> },
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
        Error::new(Code::Aborted, Reason::VersionConflict, message)
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
            ModelSettingsChange::SetDefaults { default_model, fallbacks } => {
                self.default_model = default_model.clone().unwrap_or(self.default_model);
                self.fallbacks = fallbacks.clone().unwrap_or(self.fallbacks);
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

    fn label(&self) -> &'static str {
        ""
    }

    fn list_row(&self) -> ListRow {
        ListRow { id: self.id().to_string(), ..ListRow::default() }
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
mod tests {
    use folio_types::OrgId;
    use folio_types::op::Expected;
    use serde_json::json;

    use super::*;

    fn at() -> Timestamp {
        Timestamp::constant(1_790_000_000, 0)
    }

    fn applied(before: Option<ModelSettings>, change: ModelSettingsChange) -> Result<ModelSettings> {
        let write = Write::by_platform(OrgId::platform(), "test".parse()?, at(), Expected::Absent, change);
        let plan = ModelSettings::apply(ModelSettings::fixed_id(), &write, before)?;
        Ok(plan.after.unwrap())
    }

    fn own(models: &[&str]) -> Provider {
        let models = models.iter().map(|name| ((*name).to_owned(), ModelOptions::default())).collect();
        Provider { base_url: "https://models.example/v1".into(), models, ..Provider::default() }
    }

    fn set(name: &str, provider: Provider) -> ModelSettingsChange {
        ModelSettingsChange::SetProvider { name: name.into(), provider: Box::new(provider) }
    }

    #[test]
    fn the_first_change_creates_the_settings_and_each_change_raises_the_version_once() {
        let first = applied(None, set("mine", own(&["a"]))).unwrap();
        assert_eq!((first.version, first.created_at, first.providers.len()), (1, at(), 1));
        assert_eq!(applied(Some(first.clone()), set("mine", own(&["a"]))).unwrap(), first, "a change without effect");
        let fallbacks = vec!["b".to_owned()];
        let defaults = ModelSettingsChange::SetDefaults { default_model: None, fallbacks: Some(fallbacks.clone()) };
        let second = applied(Some(first.clone()), defaults).unwrap();
        assert_eq!(second, ModelSettings { version: 2, fallbacks, ..first.clone() });
        let remove = |name: &str| ModelSettingsChange::RemoveProvider { name: name.into() };
        assert!(applied(Some(second.clone()), remove("mine")).unwrap().providers.is_empty());
        assert_eq!(applied(Some(second), remove("other")).unwrap_err().reason, Reason::NotFound);
        assert_eq!(applied(Some(first), ModelSettingsChange::Delete).unwrap_err().reason, Reason::InUse);
    }

    #[test]
    fn a_model_list_is_stored_for_the_url_that_it_was_read_from_and_within_the_bounds() {
        let settings = applied(None, set("mine", own(&[]))).unwrap();
        let list = |name: &str, base_url: &str, names: usize| ModelSettingsChange::SetAvailable {
            name: name.into(),
            base_url: base_url.into(),
            available: (0..names).map(|n| n.to_string()).collect(),
            context_tokens: (0..names).map(|n| (n.to_string(), 8_192)).collect(),
        };
        let url = "https://models.example/v1";
        let stored = applied(Some(settings.clone()), list("mine", url, AVAILABLE_MAX + 1)).unwrap();
        let mine = &stored.providers["mine"];
        assert_eq!((mine.available.len(), mine.discovered_at), (AVAILABLE_MAX, Some(at())));
        assert_eq!(mine.available_context_tokens.len(), AVAILABLE_MAX, "only the sizes of stored names are stored");
        let moved = applied(Some(settings), list("mine", "https://other.example/v1", 1)).unwrap_err();
        assert_eq!(moved.reason, Reason::VersionConflict);
        let full = applied(Some(stored), set("more", own(&[]))).unwrap();
        assert_eq!(
            applied(Some(full), list("more", url, 1)).unwrap().providers["more"].available,
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_settings_of_an_owner_are_bounded_together() {
        let reason = |result: Result<ModelSettings>| result.unwrap_err().reason;
        let settings = applied(None, set("mine", own(&["a"]))).unwrap();
        assert_eq!(reason(applied(Some(settings.clone()), set("other", own(&["a"])))), Reason::NameTaken);
        assert_eq!(reason(applied(None, set("A b", own(&[])))), Reason::InvalidField);
        let many: Vec<String> = (0..=MODELS_MAX).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(reason(applied(None, set("mine", own(&many)))), Reason::QuotaExceeded);
        let mut full = settings;
        for n in 1..PROVIDERS_MAX {
            full = applied(Some(full), set(&n.to_string(), own(&[]))).unwrap();
        }
        assert_eq!(reason(applied(Some(full), set("more", own(&[])))), Reason::QuotaExceeded);
        let fallbacks = Some(vec!["a".to_owned(); FALLBACKS_MAX + 1]);
        let defaults = ModelSettingsChange::SetDefaults { default_model: None, fallbacks };
        assert_eq!(reason(applied(None, defaults)), Reason::InvalidField);
    }

    #[test]
    fn keys_are_replaced_by_provider() {
        let key = |sealed: &str| SealedKey { master: "m".into(), sealed: sealed.into() };
        let keyed = Provider { key: Some(key("old")), ..own(&[]) };
        let settings = applied(None, set("mine", keyed)).unwrap();
        let replace = |name: &str| ModelSettingsChange::ReplaceKeys([(name.to_owned(), key("new"))].into());
        let replaced = applied(Some(settings.clone()), replace("mine")).unwrap();
        assert_eq!(replaced.providers["mine"].key, Some(key("new")));
        assert_eq!(applied(Some(settings), replace("other")).unwrap_err().reason, Reason::NotFound);
    }

    #[test]
    fn unknown_fields_of_stored_models_are_ignored_and_those_of_settings_are_errors() {
        let options = json!({ "upstream": "vendor/large", "input_price": 7, "price_of_images": 3 });
        let settings = json!({
            "version": 2,
            "providers": { "mine": { "base_url": "https://models.example", "models": { "large": options } } },
        });
        let read: ModelSettings = serde_json::from_value(settings).unwrap();
        let model = &read.providers["mine"].models["large"];
        assert_eq!((model.upstream.as_str(), model.input_price, model.tools), ("vendor/large", Some(7), true));
        let refused = serde_json::from_value::<ModelOptions>(options).unwrap_err().to_string();
        assert!(refused.contains("unknown field `price_of_images`"), "{refused}");
        let of = |evidence: bool| {
            let models = [("large".to_owned(), ModelOptions { evidence, ..ModelOptions::default() })].into();
            serde_json::to_value(Provider { models, ..Provider::default() }).unwrap()["models"]["large"]["evidence"]
                .clone()
        };
        assert_eq!((of(true), of(false)), (json!(true), Value::Null), "the default is not stored");
        let wrong = json!({ "providers": { "mine": { "models": { "large": { "upstream": 7 } } } } });
        assert!(serde_json::from_value::<ModelSettings>(wrong).is_err(), "a known field of another type");
    }

    #[test]
    fn a_model_name_is_unique_among_the_enabled_models_of_own_providers() {
        let settings = applied(None, set("mine", own(&["a"]))).unwrap();
        let models = |options: ModelOptions| [("a".to_owned(), options)].into();
        let keyed = Some(SealedKey { master: "m".into(), sealed: "s".into() });
        let disabled_model = ModelOptions { enabled: false, ..ModelOptions::default() };
        for (other, is_taken) in [
            (Provider { base_url: String::new(), ..own(&["a"]) }, false),
            (Provider { base_url: String::new(), key: keyed, ..own(&["a"]) }, true),
            (Provider { enabled: false, ..own(&["a"]) }, false),
            (Provider { models: models(disabled_model), ..own(&[]) }, false),
            (Provider { models: models(ModelOptions::default()), ..own(&[]) }, true),
        ] {
            let reason = applied(Some(settings.clone()), set("other", other)).err().map(|error| error.reason);
            assert_eq!(reason, is_taken.then_some(Reason::NameTaken));
        }
    }

    #[test]
    fn settings_at_their_bounds_are_stored() {
        let models: Vec<String> = (0..MODELS_MAX).map(|n| n.to_string()).collect();
        let models: Vec<&str> = models.iter().map(String::as_str).collect();
        let settings = applied(None, set("mine", own(&models))).unwrap();
        let fallbacks = Some(vec!["0".to_owned(); FALLBACKS_MAX]);
        let defaults = ModelSettingsChange::SetDefaults { default_model: None, fallbacks };
        assert_eq!(applied(Some(settings), defaults).unwrap().fallbacks.len(), FALLBACKS_MAX);
    }

    #[test]
    fn model_lists_are_bounded_by_their_bytes() {
        let names = |count: usize| -> Vec<String> { vec!["x".repeat(1024); count] };
        let provider = |available| Provider { available, ..own(&[]) };
        let full = applied(None, set("mine", provider(names(64)))).unwrap();
        let longer = [names(64), vec!["x".to_owned()]].concat();
        for (refused, what) in [(longer.clone(), "bytes"), (vec![String::new(); AVAILABLE_MAX + 1], "names")] {
            let refused = applied(None, set("mine", provider(refused))).unwrap_err();
            assert_eq!(refused.reason, Reason::QuotaExceeded, "{what}");
        }
        let list = |name: &str, available: Vec<String>| ModelSettingsChange::SetAvailable {
            name: name.to_owned(),
            base_url: own(&[]).base_url,
            available,
            context_tokens: BTreeMap::new(),
        };
        let cut = applied(Some(full.clone()), list("mine", longer)).unwrap();
        assert_eq!(cut.providers["mine"].available, names(64), "the bound itself is permitted");
        let both = applied(Some(full), set("more", own(&[]))).unwrap();
        let more = applied(Some(both), list("more", names(1))).unwrap();
        assert_eq!(more.providers["more"].available, Vec::<String>::new());
    }
}
