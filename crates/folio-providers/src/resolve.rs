//! Computes the effective model table of an organization: the platform's table overlaid with the organization's
//! settings. Pure.

use std::collections::{BTreeMap, BTreeSet};

use folio_llm::options::complete_sizes;
use folio_llm::{AccountOwner, ModelKind, ModelOptions, Options, ProviderOptions};
use folio_resources::{ModelSettings, Provider, SealedKey};
use folio_types::{OrgId, Secret};

#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// Enabled providers with a URL. Each enabled model name occurs once.
    pub(crate) options: Options,
    pub(crate) owners: Owners,
}

/// Account owners of the providers. The account of a provider without an entry belongs to the platform.
#[derive(Debug, Clone)]
pub(crate) struct Owners(BTreeMap<String, AccountOwner>);

impl Owners {
    pub(crate) fn of(&self, name: &str) -> AccountOwner {
        self.0.get(name).copied().unwrap_or_default()
    }
}

pub(crate) struct Layer<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) settings: &'a ModelSettings,
}

/// Decrypts the API key of an owner's provider. Returns None on failure.
pub(crate) trait Open: Fn(&OrgId, &str, &SealedKey) -> Option<Secret> {}

impl<F: Fn(&OrgId, &str, &SealedKey) -> Option<Secret>> Open for F {}

/// Overlays the table with the platform's stored settings, then with the organization's.
pub(crate) fn resolve(table: &Options, platform: &Layer<'_>, tenant: &Layer<'_>, open: impl Open) -> Resolved {
    let mut providers = table.providers.clone();
    // The platform may use its own keys with all of its providers.
    overlay(&mut providers, platform, |_| true, &open);
    let owners = overlay(&mut providers, tenant, ProviderOptions::takes_own_keys, &open);
    providers.retain(|_, provider| provider.enabled && !provider.base_url.is_empty());
    deduplicate_models(&mut providers, |name| owners.of(name) != AccountOwner::Platform);

    let enabled = providers.values().flat_map(|provider| provider.models.iter().filter(|(_, model)| model.enabled));
    let models: BTreeMap<&str, &ModelOptions> = enabled.map(|(name, model)| (name.as_str(), model)).collect();
    let layers = [tenant.settings, platform.settings];
    // The first layer whose model is available sets it.
    let first = |of: fn(&ModelSettings) -> &String, of_table: &String, fits: &dyn Fn(&ModelOptions) -> bool| {
        let mut names = layers.iter().map(|settings| of(settings)).chain([of_table]);
        names.find(|name| models.get(name.as_str()).is_some_and(|model| fits(model))).cloned().unwrap_or_default()
    };
    let chosen = |kind: ModelKind, of: fn(&ModelSettings) -> &String, of_table: &String| {
        first(of, of_table, &|model: &ModelOptions| model.kind == kind)
    };
    let default_model = chosen(ModelKind::Chat, |settings| &settings.default_model, &table.default_model);
    let default_embedding_model =
        chosen(ModelKind::Embedding, |settings| &settings.embedding_model, &table.default_embedding_model);
    let default_rerank_model =
        chosen(ModelKind::Rerank, |settings| &settings.rerank_model, &table.default_rerank_model);
    let sees = |model: &ModelOptions| model.kind == ModelKind::Chat && model.vision;
    let default_image_model = first(|settings| &settings.image_model, &table.default_image_model, &sees);
    let fallbacks = layers.iter().map(|settings| &settings.fallbacks).find(|list| !list.is_empty());
    let fallbacks = fallbacks.unwrap_or(&table.fallbacks).clone();
    let defaults = Options {
        default_model,
        default_embedding_model,
        default_rerank_model,
        default_image_model,
        fallbacks,
        ..table.clone()
    };
    Resolved { options: Options { providers, ..defaults }, owners }
}

/// Overlays the providers with one layer. Returns the account owners of this layer's providers. `takes_keys`: true if a
/// provider of the layer below may be called with this layer's key.
fn overlay(
    providers: &mut BTreeMap<String, ProviderOptions>,
    layer: &Layer<'_>,
    takes_keys: impl Fn(&ProviderOptions) -> bool,
    open: &impl Open,
) -> Owners {
    let mut owners = BTreeMap::new();
    for (name, set) in &layer.settings.providers {
        let below = providers.get(name);
        let owner = if !set.base_url.is_empty() {
            AccountOwner::ByUrl
        } else if set.key.is_some() && below.is_some_and(&takes_keys) {
            AccountOwner::ByKey
        } else {
            AccountOwner::Platform
        };
        let merged = match owner {
            AccountOwner::Platform => restricted(below, set),
            AccountOwner::ByKey | AccountOwner::ByUrl => tenant_provider(below, name, set, layer.org, open),
        };
        match merged {
            Some(provider) => providers.insert(name.clone(), provider),
            None => providers.remove(name),
        };
        owners.insert(name.clone(), owner);
    }
    Owners(owners)
}

/// Returns a provider with the URL or key of the layer. The URL of the layer never receives a key of another layer.
fn tenant_provider(
    below: Option<&ProviderOptions>,
    name: &str,
    set: &Provider,
    org: &OrgId,
    open: &impl Open,
) -> Option<ProviderOptions> {
    let api_key = match &set.key {
        Some(key) => open(org, name, key)?,
        None => Secret::default(),
    };
    // A provider with a URL of its own is available even if the provider of the layer below is disabled.
    let is_available = !set.base_url.is_empty() || below.is_some_and(|below| below.enabled);
    let base = ProviderOptions {
        enabled: set.enabled && is_available,
        api_key,
        api_key_env: String::new(),
        ..below.cloned().unwrap_or_default()
    };
    let base = if set.base_url.is_empty() {
        base
    } else {
        let (output_limit_field, stream_usage) = (set.output_limit_field, set.stream_usage);
        ProviderOptions {
            base_url: set.base_url.clone(),
            models: BTreeMap::new(),
            output_limit_field,
            stream_usage,
            ..base
        }
    };
    if set.models.is_empty() {
        return Some(base);
    }
    let mut models = set.models.clone();
    for (name, model) in &mut models {
        let stated = set.available_context_tokens.get(model.upstream_of(name)).copied();
        complete_sizes(name, model, stated);
    }
    Some(ProviderOptions { models, ..base })
}

/// Returns the provider of the layer below, restricted by the settings of this layer.
fn restricted(below: Option<&ProviderOptions>, set: &Provider) -> Option<ProviderOptions> {
    let mut provider = below?.clone();
    provider.enabled &= set.enabled;
    for (name, model) in &mut provider.models {
        if let Some(set) = set.models.get(name) {
            let (enabled, chat, prompts) = (model.enabled && set.enabled, set.chat, set.prompts);
            *model = ModelOptions { enabled, chat, prompts, ..model.clone() };
        }
    }
    Some(provider)
}

/// Assigns each model name to one provider: own providers before the platform's, then the first by name.
fn deduplicate_models(providers: &mut BTreeMap<String, ProviderOptions>, is_own: impl Fn(&str) -> bool) {
    let mut models = BTreeSet::new();
    for own_providers in [true, false] {
        for (_, provider) in providers.iter_mut().filter(|(name, _)| is_own(name) == own_providers) {
            provider.models.retain(|name, model| !model.enabled || models.insert(name.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(input_price: u64) -> ModelOptions {
        ModelOptions { input_price: Some(input_price), ..ModelOptions::default() }
    }

    fn table() -> Options {
        let provider = ProviderOptions {
            base_url: "https://platform.example/v1".into(),
            api_key: Secret::new("sk-platform"),
            models: [("small".to_owned(), model(1)), ("large".to_owned(), model(9))].into(),
            ..ProviderOptions::default()
        };
        let other = ProviderOptions {
            base_url: "http://10.0.0.1/v1".into(),
            models: [("local".to_owned(), model(0))].into(),
            ..ProviderOptions::default()
        };
        let providers = [("hub".to_owned(), provider), ("rack".to_owned(), other)].into();
        Options { default_model: "small".into(), providers, ..Options::default() }
    }

    fn settings(providers: &[(&str, Provider)]) -> ModelSettings {
        let providers = providers.iter().map(|(name, provider)| ((*name).to_owned(), provider.clone())).collect();
        ModelSettings { providers, ..ModelSettings::default() }
    }

    fn sealed(key: &str) -> Option<SealedKey> {
        Some(SealedKey { master: "m".into(), sealed: key.into() })
    }

    fn resolved(platform: &ModelSettings, tenant: &ModelSettings) -> Resolved {
        let (one, other) = (OrgId::platform(), OrgId::derive(&["tenant"]));
        let open = |org: &OrgId, name: &str, key: &SealedKey| {
            (key.sealed != "lost").then(|| Secret::new(&format!("{}:{name}:{}", key.sealed, *org == other)))
        };
        let (platform, tenant) = (Layer { org: &one, settings: platform }, Layer { org: &other, settings: tenant });
        resolve(&table(), &platform, &tenant, open)
    }

    #[test]
    fn without_settings_an_organization_has_the_platforms_table() {
        let nothing = ModelSettings::default();
        let found = resolved(&nothing, &nothing);
        assert_eq!(found.options, table());
        assert_eq!(found.owners.of("hub"), AccountOwner::Platform);
    }

    #[test]
    fn a_provider_without_url_and_key_only_restricts_the_platforms() {
        let cheap =
            ModelOptions { input_price: Some(0), context_tokens: 9_000, chat: false, ..ModelOptions::default() };
        let off = ModelOptions { enabled: false, ..ModelOptions::default() };
        let models = [("small".to_owned(), cheap.clone()), ("large".to_owned(), off), ("expensive".to_owned(), cheap)];
        let narrow = Provider { models: models.into(), ..Provider::default() };
        let found =
            resolved(&ModelSettings::default(), &settings(&[("hub", narrow), ("nobodys", Provider::default())]));
        let hub = &found.options.providers["hub"];
        assert_eq!(hub.api_key.reveal(), "sk-platform");
        assert_eq!(
            hub.models["small"],
            ModelOptions { chat: false, ..model(1) },
            "sizes and prices are the platform's"
        );
        assert!(!hub.models["large"].enabled && !hub.models.contains_key("expensive"));
        assert!(!found.options.providers.contains_key("nobodys"));
        let closed = settings(&[("hub", Provider { enabled: false, ..Provider::default() })]);
        for own in [Provider::default(), Provider { key: sealed("sk-own"), ..Provider::default() }] {
            let found = resolved(&closed, &settings(&[("hub", own)]));
            assert!(
                !found.options.providers.contains_key("hub"),
                "the platform disabled the provider for every organization"
            );
        }
        let elsewhere = Provider { base_url: "https://tenant.example/v1".into(), ..Provider::default() };
        let found = resolved(&closed, &settings(&[("hub", elsewhere)]));
        assert!(found.options.providers.contains_key("hub"), "another endpoint of the same name");
        let found = resolved(&closed, &settings(&[("hub", Provider::default())]));
        assert_eq!(found.options.default_model, "", "an unavailable model is not the default");
    }

    #[test]
    fn the_platforms_key_is_never_sent_to_an_organizations_url() {
        let url = Provider { base_url: "https://tenant.example/v1".into(), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", url.clone())]));
        let hub = &found.options.providers["hub"];
        assert_eq!((hub.base_url.as_str(), hub.api_key.reveal()), ("https://tenant.example/v1", ""));
        assert!(hub.models.is_empty() && found.owners.of("hub") == AccountOwner::ByUrl);
        let stored = settings(&[("hub", Provider { key: sealed("sk-stored"), ..Provider::default() })]);
        let found = resolved(&stored, &settings(&[("hub", url)]));
        assert!(found.options.providers["hub"].api_key.is_empty());
        assert_eq!(
            resolved(&stored, &ModelSettings::default()).options.providers["hub"].api_key.reveal(),
            "sk-stored:hub:false"
        );
    }

    #[test]
    fn a_context_size_that_is_not_set_is_that_of_the_endpoint_or_the_known_one() {
        let named = |upstream: &str| ModelOptions { upstream: upstream.into(), ..ModelOptions::default() };
        let set = ModelOptions { context_tokens: 9_000, ..named("llama3.1") };
        let models = [("set", set), ("stated", named("llama3.1")), ("llama3.2", named("")), ("fast", named(""))];
        let own = Provider {
            base_url: "https://tenant.example/v1".into(),
            models: models.map(|(name, model)| (name.to_owned(), model)).into(),
            available_context_tokens: [("llama3.1".to_owned(), 8_000), ("stated".to_owned(), 7_000)].into(),
            ..Provider::default()
        };
        let found = resolved(&ModelSettings::default(), &settings(&[("own", own)]));
        let sizes =
            found.options.providers["own"].models.iter().map(|(name, model)| (name.as_str(), model.context_tokens));
        let expected = [("fast", 32_768), ("llama3.2", 131_072), ("set", 9_000), ("stated", 8_000)];
        assert_eq!(sizes.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_own_key_is_used_with_the_platforms_url_and_models_or_own_ones() {
        let own = Provider { key: sealed("sk-own"), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", own.clone())]));
        let hub = &found.options.providers["hub"];
        assert_eq!((hub.api_key.reveal(), hub.models.len()), ("sk-own:hub:true", 2));
        assert_eq!(hub.base_url, "https://platform.example/v1");
        assert_eq!(found.owners.of("hub"), AccountOwner::ByKey, "the URL is the platform's");
        let models = [("expensive".to_owned(), model(99))].into();
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", Provider { models, ..own })]));
        assert_eq!(found.options.providers["hub"].models.keys().collect::<Vec<_>>(), ["expensive"]);
        let lost = Provider { key: sealed("lost"), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", lost)]));
        assert!(!found.options.providers.contains_key("hub"), "the platform's key never replaces an undecryptable one");
    }

    #[test]
    fn an_endpoint_that_accepts_any_key_is_not_used_with_own_keys() {
        let models = [("small".to_owned(), model(0)), ("all".to_owned(), model(0))].into();
        let own = Provider { key: sealed("x"), models, ..Provider::default() };
        let resolved = |own_keys: Option<bool>, name: &str| {
            let (platform, tenant) = (OrgId::platform(), OrgId::derive(&["tenant"]));
            let (nothing, set) = (ModelSettings::default(), settings(&[(name, own.clone())]));
            let mut table = table();
            table.providers.values_mut().for_each(|provider| provider.own_keys = own_keys);
            let platform = Layer { org: &platform, settings: &nothing };
            let open = |_: &OrgId, _: &str, key: &SealedKey| Some(Secret::new(&key.sealed));
            resolve(&table, &platform, &Layer { org: &tenant, settings: &set }, open)
        };
        for (name, own_keys, owned) in [
            ("hub", None, AccountOwner::ByKey),
            ("rack", None, AccountOwner::Platform),
            ("hub", Some(false), AccountOwner::Platform),
            ("rack", Some(true), AccountOwner::ByKey),
        ] {
            let found = resolved(own_keys, name);
            assert_eq!(found.owners.of(name), owned, "{name} {own_keys:?}");
            let (available_names, before) = (&found.options.providers[name], &table().providers[name]);
            if owned == AccountOwner::Platform {
                assert_eq!(
                    (&available_names.models, &available_names.api_key),
                    (&before.models, &before.api_key),
                    "the platform's account"
                );
            } else {
                assert_eq!((available_names.models.len(), available_names.api_key.reveal()), (2, "x"));
            }
        }
    }

    #[test]
    fn the_organizations_model_takes_precedence_over_the_platforms() {
        let models = [("small".to_owned(), model(5))].into();
        let own = Provider { base_url: "https://z.example/v1".into(), models, ..Provider::default() };
        let tenant = ModelSettings {
            default_model: "local".into(),
            fallbacks: vec!["small".into()],
            ..settings(&[("zzz", own)])
        };
        let platform = ModelSettings { fallbacks: vec!["large".into()], ..ModelSettings::default() };
        let found = resolved(&platform, &tenant);
        assert!(found.options.providers["zzz"].models.contains_key("small"));
        assert!(!found.options.providers["hub"].models.contains_key("small"));
        assert_eq!((found.options.default_model.as_str(), found.options.fallbacks.len()), ("local", 1));
        assert_eq!(resolved(&platform, &ModelSettings::default()).options.fallbacks, ["large"]);
        let deleted_default = ModelSettings { default_model: "gone".into(), ..ModelSettings::default() };
        assert_eq!(resolved(&platform, &deleted_default).options.default_model, "small");
    }

    #[test]
    fn images_are_described_by_a_chat_model_with_vision_of_the_first_layer_that_has_one() {
        let sees = ModelOptions { vision: true, ..ModelOptions::default() };
        let models = [("own-sees".to_owned(), sees.clone()), ("own-blind".to_owned(), ModelOptions::default())];
        let own = Provider { base_url: "https://z.example/v1".into(), models: models.into(), ..Provider::default() };
        let mut table = table();
        table.providers.get_mut("hub").unwrap().models.insert("sees".into(), sees);
        table.default_image_model = "sees".into();
        let org = OrgId::derive(&["tenant"]);
        let chosen = |name: &str| {
            let tenant = ModelSettings { image_model: name.to_owned(), ..settings(&[("zzz", own.clone())]) };
            let platform = ModelSettings::default();
            let layers = (Layer { org: &org, settings: &platform }, Layer { org: &org, settings: &tenant });
            let open = |_: &OrgId, _: &str, _: &SealedKey| None;
            resolve(&table, &layers.0, &layers.1, open).options.default_image_model
        };
        assert_eq!(["", "own-sees", "own-blind", "deleted"].map(chosen), ["sees", "own-sees", "sees", "sees"]);
    }

    #[test]
    fn models_for_retrieval_are_those_of_the_first_layer_that_has_them() {
        let of_kind = |kind| ModelOptions { kind, ..ModelOptions::default() };
        let models = [
            ("own-vectors".to_owned(), of_kind(ModelKind::Embedding)),
            ("own-rates".to_owned(), of_kind(ModelKind::Rerank)),
        ];
        let own = Provider { base_url: "https://z.example/v1".into(), models: models.into(), ..Provider::default() };
        let mut table = table();
        let hub = table.providers.get_mut("hub").unwrap();
        hub.models.insert("vectors".into(), of_kind(ModelKind::Embedding));
        table.default_embedding_model = "vectors".into();
        let found = |embedding: &str, rerank: &str| {
            let (embedding_model, rerank_model) = (embedding.to_owned(), rerank.to_owned());
            let tenant = ModelSettings { embedding_model, rerank_model, ..settings(&[("zzz", own.clone())]) };
            let (platform, org, nothing) = (OrgId::platform(), OrgId::derive(&["tenant"]), ModelSettings::default());
            let layers = (Layer { org: &platform, settings: &nothing }, Layer { org: &org, settings: &tenant });
            let open = |_: &OrgId, _: &str, _: &SealedKey| None;
            let options = resolve(&table, &layers.0, &layers.1, open).options;
            [options.default_embedding_model, options.default_rerank_model]
        };
        assert_eq!(found("own-vectors", "own-rates"), ["own-vectors", "own-rates"]);
        assert_eq!(found("", ""), ["vectors", ""]);
        assert_eq!(found("own-rates", "vectors"), ["vectors", ""], "models of another kind");
    }
}
