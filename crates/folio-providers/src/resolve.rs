//! What an organization has: the platform's table with its own settings over it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use folio_llm::{ModelOptions, Options, Owned, ProviderOptions};
use folio_types::models::{ModelSettings, Provider, SealedKey};
use folio_types::{OrgId, Secret};

/// A table for one organization.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    /// The endpoints that may be called. Each model's name stands once.
    pub(crate) options: Options,
    /// Whose they are.
    pub(crate) owned: Owners,
}

/// The providers that are accounts of the organization itself.
#[derive(Debug, Clone)]
pub(crate) struct Owners(BTreeMap<String, Owned>);

impl Owners {
    /// Whose a provider is.
    pub(crate) fn of(&self, name: &str) -> Owned {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// Whose settings, and what opens the keys in them.
pub(crate) struct Layer<'a> {
    pub(crate) org: &'a OrgId,
    pub(crate) settings: &'a ModelSettings,
}

/// Decrypts the key of an owner's provider; none: it cannot be used.
pub(crate) trait Open: Fn(&OrgId, &str, &SealedKey) -> Option<Secret> {}

impl<F: Fn(&OrgId, &str, &SealedKey) -> Option<Secret>> Open for F {}

/// Lays the platform's stored settings over the table, and an organization's over both.
pub(crate) fn resolve(table: &Options, platform: &Layer<'_>, tenant: &Layer<'_>, open: impl Open) -> Resolved {
    let mut providers = table.providers.clone();
    // What the platform says of its own providers is its own word.
    overlay(&mut providers, platform, |_| true, &open);
    let owned = overlay(&mut providers, tenant, ProviderOptions::takes_own_keys, &open);
    providers.retain(|_, provider| provider.enabled && !provider.base_url.is_empty());
    name_once(&mut providers, |name| owned.of(name) != Owned::Platform);

    let there: BTreeSet<&str> = providers
        .values()
        .flat_map(|provider| provider.models.iter().filter(|(_, model)| model.enabled).map(|(name, _)| name.as_str()))
        .collect();
    let layers = [tenant.settings, platform.settings];
    let defaults = layers.iter().map(|settings| &settings.default_model).chain([&table.default_model]);
    let default_model = defaults.into_iter().find(|name| there.contains(name.as_str())).cloned().unwrap_or_default();
    let fallbacks = layers.iter().map(|settings| &settings.fallbacks).find(|list| !list.is_empty());
    let fallbacks = fallbacks.unwrap_or(&table.fallbacks).clone();
    Resolved { options: Options { default_model, fallbacks, providers, ..table.clone() }, owned }
}

/// Lays one layer over the others; gives whose its providers are. `takes_keys`: whether one below may be called with this layer's key.
fn overlay(
    providers: &mut BTreeMap<String, ProviderOptions>,
    layer: &Layer<'_>,
    takes_keys: impl Fn(&ProviderOptions) -> bool,
    open: &impl Open,
) -> Owners {
    let mut owners = BTreeMap::new();
    for (name, set) in &layer.settings.providers {
        let below = providers.get(name);
        let whose = if !set.base_url.is_empty() {
            Owned::ByUrl
        } else if set.key.is_some() && below.is_some_and(&takes_keys) {
            Owned::ByKey
        } else {
            Owned::Platform
        };
        let over = match whose {
            Owned::Platform => narrowed(below, set),
            Owned::ByKey | Owned::ByUrl => owned(below, name, set, layer.org, open),
        };
        match over {
            Some(over) => providers.insert(name.clone(), over),
            None => providers.remove(name),
        };
        owners.insert(name.clone(), whose);
    }
    Owners(owners)
}

/// An account of whoever set it. No key of another layer ever goes to its URL.
fn owned(
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
    // At another URL it is another endpoint.
    let there = !set.base_url.is_empty() || below.is_some_and(|below| below.enabled);
    let base = ProviderOptions {
        enabled: set.enabled && there,
        api_key,
        api_key_env: String::new(),
        ..below.cloned().unwrap_or_default()
    };
    let base = if set.base_url.is_empty() {
        base
    } else {
        let (models, embedding_models) = (BTreeMap::new(), BTreeMap::new());
        let (output_limit_field, stream_usage) = (set.output_limit_field, set.stream_usage);
        ProviderOptions {
            base_url: set.base_url.clone(),
            models,
            embedding_models,
            output_limit_field,
            stream_usage,
            ..base
        }
    };
    Some(if set.models.is_empty() { base } else { ProviderOptions { models: set.models.clone(), ..base } })
}

/// The account of the layer below, of which this one says what is offered.
fn narrowed(below: Option<&ProviderOptions>, set: &Provider) -> Option<ProviderOptions> {
    let mut over = below?.clone();
    over.enabled &= set.enabled;
    for (name, model) in &mut over.models {
        if let Some(set) = set.models.get(name) {
            let (enabled, chat, prompts) = (model.enabled && set.enabled, set.chat, set.prompts);
            *model = ModelOptions { enabled, chat, prompts, ..model.clone() };
        }
    }
    Some(over)
}

/// Leaves each model's name to one provider: to an own one before the platform's, then to the first by name.
fn name_once(providers: &mut BTreeMap<String, ProviderOptions>, own: impl Fn(&str) -> bool) {
    let (mut models, mut embedding_models) = (BTreeSet::new(), BTreeSet::new());
    for first in [true, false] {
        for (_, provider) in providers.iter_mut().filter(|(name, _)| own(name) == first) {
            provider.models.retain(|name, model| !model.enabled || models.insert(name.clone()));
            provider.embedding_models.retain(|name, _| embedding_models.insert(name.clone()));
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
        let (one, other) = (ModelSettings::platform(), OrgId::derive(&["tenant"]));
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
        assert_eq!(found.owned.of("hub"), Owned::Platform);
    }

    #[test]
    fn a_provider_without_url_and_key_only_narrows_the_platforms() {
        let cheap =
            ModelOptions { input_price: Some(0), context_tokens: 9_000, chat: false, ..ModelOptions::default() };
        let off = ModelOptions { enabled: false, ..ModelOptions::default() };
        let models = [("small".to_owned(), cheap.clone()), ("large".to_owned(), off), ("dear".to_owned(), cheap)];
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
        assert!(!hub.models["large"].enabled && !hub.models.contains_key("dear"));
        assert!(!found.options.providers.contains_key("nobodys"));
        let closed = settings(&[("hub", Provider { enabled: false, ..Provider::default() })]);
        for own in [Provider::default(), Provider { key: sealed("sk-own"), ..Provider::default() }] {
            let found = resolved(&closed, &settings(&[("hub", own)]));
            assert!(!found.options.providers.contains_key("hub"), "what the platform closed stays closed");
        }
        let elsewhere = Provider { base_url: "https://tenant.example/v1".into(), ..Provider::default() };
        let found = resolved(&closed, &settings(&[("hub", elsewhere)]));
        assert!(found.options.providers.contains_key("hub"), "another endpoint of the same name");
        let found = resolved(&closed, &settings(&[("hub", Provider::default())]));
        assert_eq!(found.options.default_model, "", "the default went with it");
    }

    #[test]
    fn the_platforms_key_never_goes_to_an_organizations_url() {
        let url = Provider { base_url: "https://tenant.example/v1".into(), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", url.clone())]));
        let hub = &found.options.providers["hub"];
        assert_eq!((hub.base_url.as_str(), hub.api_key.reveal()), ("https://tenant.example/v1", ""));
        assert!(hub.models.is_empty() && found.owned.of("hub") == Owned::ByUrl);
        let stored = settings(&[("hub", Provider { key: sealed("sk-stored"), ..Provider::default() })]);
        let found = resolved(&stored, &settings(&[("hub", url)]));
        assert!(found.options.providers["hub"].api_key.is_empty());
        assert_eq!(
            resolved(&stored, &ModelSettings::default()).options.providers["hub"].api_key.reveal(),
            "sk-stored:hub:false"
        );
    }

    #[test]
    fn an_own_key_goes_with_the_platforms_url_and_models_or_own_ones() {
        let own = Provider { key: sealed("sk-own"), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", own.clone())]));
        let hub = &found.options.providers["hub"];
        assert_eq!((hub.api_key.reveal(), hub.models.len()), ("sk-own:hub:true", 2));
        assert_eq!(hub.base_url, "https://platform.example/v1");
        assert_eq!(found.owned.of("hub"), Owned::ByKey, "the URL is the platform's");
        let models = [("dear".to_owned(), model(99))].into();
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", Provider { models, ..own })]));
        assert_eq!(found.options.providers["hub"].models.keys().collect::<Vec<_>>(), ["dear"]);
        let lost = Provider { key: sealed("lost"), ..Provider::default() };
        let found = resolved(&ModelSettings::default(), &settings(&[("hub", lost)]));
        assert!(!found.options.providers.contains_key("hub"), "never the platform's key in the place of a lost one");
    }

    #[test]
    fn a_key_makes_no_account_of_an_endpoint_that_takes_any() {
        let models = [("small".to_owned(), model(0)), ("all".to_owned(), model(0))].into();
        let own = Provider { key: sealed("x"), models, ..Provider::default() };
        let resolved = |own_keys: Option<bool>, name: &str| {
            let (platform, tenant) = (ModelSettings::platform(), OrgId::derive(&["tenant"]));
            let (nothing, set) = (ModelSettings::default(), settings(&[(name, own.clone())]));
            let mut table = table();
            table.providers.values_mut().for_each(|provider| provider.own_keys = own_keys);
            let platform = Layer { org: &platform, settings: &nothing };
            let open = |_: &OrgId, _: &str, key: &SealedKey| Some(Secret::new(&key.sealed));
            resolve(&table, &platform, &Layer { org: &tenant, settings: &set }, open)
        };
        for (name, own_keys, owned) in [
            ("hub", None, Owned::ByKey),
            ("rack", None, Owned::Platform),
            ("hub", Some(false), Owned::Platform),
            ("rack", Some(true), Owned::ByKey),
        ] {
            let found = resolved(own_keys, name);
            assert_eq!(found.owned.of(name), owned, "{name} {own_keys:?}");
            let (there, before) = (&found.options.providers[name], &table().providers[name]);
            if owned == Owned::Platform {
                assert_eq!(
                    (&there.models, &there.api_key),
                    (&before.models, &before.api_key),
                    "the platform's account"
                );
            } else {
                assert_eq!((there.models.len(), there.api_key.reveal()), (2, "x"));
            }
        }
    }

    #[test]
    fn a_models_name_is_the_organizations_before_the_platforms() {
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
        let gone = ModelSettings { default_model: "gone".into(), ..ModelSettings::default() };
        assert_eq!(resolved(&platform, &gone).options.default_model, "small");
    }
}
