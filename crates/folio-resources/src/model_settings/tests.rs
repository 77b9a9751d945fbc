use folio_types::OrgId;
use folio_types::models::ModelKind;
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
    let change = ModelDefaults { fallbacks: Some(fallbacks.clone()), ..ModelDefaults::default() };
    let defaults = ModelSettingsChange::SetDefaults(change);
    let second = applied(Some(first.clone()), defaults).unwrap();
    assert_eq!(second, ModelSettings { version: 2, fallbacks, ..first.clone() });
    let named = |name: &str| ModelDefaults { embedding_model: Some(name.to_owned()), ..ModelDefaults::default() };
    let third = applied(Some(second.clone()), ModelSettingsChange::SetDefaults(named("vectors"))).unwrap();
    assert_eq!((third.embedding_model.as_str(), &third.fallbacks), ("vectors", &second.fallbacks));
    let reset = applied(Some(third), ModelSettingsChange::SetDefaults(named(""))).unwrap();
    assert_eq!((reset.version, reset.embedding_model.as_str()), (4, ""));
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
    assert_eq!(applied(Some(full), list("more", url, 1)).unwrap().providers["more"].available, Vec::<String>::new());
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
    let defaults = ModelSettingsChange::SetDefaults(ModelDefaults { fallbacks, ..ModelDefaults::default() });
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
        serde_json::to_value(Provider { models, ..Provider::default() }).unwrap()["models"]["large"]["evidence"].clone()
    };
    assert_eq!((of(true), of(false)), (json!(true), Value::Null), "the default is not stored");
    let vectors = ModelOptions { kind: ModelKind::Embedding, dimensions: 256, ..ModelOptions::default() };
    let models = BTreeMap::from([("vectors".to_owned(), vectors), ("chat".to_owned(), ModelOptions::default())]);
    let stored = serde_json::to_value(Provider { models: models.clone(), ..Provider::default() }).unwrap();
    assert_eq!(stored["models"]["vectors"]["kind"], "embedding");
    for field in ["kind", "dimensions", "query_prefix", "passage_prefix"] {
        assert!(stored["models"]["chat"].get(field).is_none(), "{field}");
    }
    assert_eq!(serde_json::from_value::<Provider>(stored).unwrap().models, models);
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
    let defaults = ModelSettingsChange::SetDefaults(ModelDefaults { fallbacks, ..ModelDefaults::default() });
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
