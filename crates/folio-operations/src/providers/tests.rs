//! Tests of the effective providers and of recorded API keys.

use super::*;

#[test]
fn the_platform_restricts_and_extends_the_providers_of_the_settings_file() {
    let model = |enabled| ModelOptions { enabled, context_tokens: 8_000, ..ModelOptions::default() };
    let models = |names: &[(&str, bool)]| -> BTreeMap<String, ModelOptions> {
        names.iter().map(|(name, enabled)| ((*name).to_owned(), model(*enabled))).collect()
    };
    let hub = ProviderOptions {
        base_url: "https://hub.example/v1".to_owned(),
        api_key: Secret::new("sk"),
        models: models(&[("large", false), ("small", true)]),
        ..ProviderOptions::default()
    };
    let file = BTreeMap::from([("hub".to_owned(), hub)]);
    let found = |name: &str, set: Provider| {
        let providers = BTreeMap::from([(name.to_owned(), set)]);
        effective(&file, &ModelSettings { providers, ..ModelSettings::default() })
    };
    let enabled = |view: &ProviderView| -> Vec<String> {
        let models = view.provider.models.iter().filter(|(_, model)| model.enabled);
        models.map(|(name, _)| name.clone()).collect()
    };
    let restricting = Provider { models: models(&[("large", true), ("small", false)]), ..Provider::default() };
    let restricted = found("hub", restricting.clone());
    assert_eq!((restricted.len(), restricted[0].has_api_key), (1, true));
    assert_eq!(restricted[0].provider.base_url, "https://hub.example/v1");
    assert_eq!(enabled(&restricted[0]), [""; 0], "a model of the file that is disabled stays disabled");
    let own = Provider { base_url: "https://own.example/v1".to_owned(), ..restricting };
    let replaced = found("hub", own.clone());
    assert_eq!((enabled(&replaced[0]), replaced[0].has_api_key), (vec!["large".to_owned()], false));
    let disabled = found("hub", Provider { enabled: false, ..Provider::default() });
    assert!(!disabled[0].provider.enabled && enabled(&disabled[0]) == ["small"]);
    let names: Vec<_> = found("own", own).into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["hub", "own"]);
}

#[test]
fn an_api_key_is_serialized_and_recorded_without_its_text() {
    let update = |key: &str| UpdateProvider {
        owner: ProviderOwner::Organization,
        name: "p".to_owned(),
        enabled: None,
        base_url: None,
        api_key: Some(Secret::new(key)),
        output_limit_field: None,
        stream_usage: None,
        models: None,
        etag: None,
    };
    let input = |key: &str| serde_json::to_string(&update(key)).unwrap();
    assert!(!input("sk-secret").contains("sk-secret"));
    assert_eq!(input("sk-secret"), input("sk-secret"));
    assert_ne!(input("sk-secret"), input("sk-other"), "another key is another request");
    assert_eq!(update("sk-secret").arguments()["api_key"], "set");
    assert!(!format!("{:?}", update("sk-secret")).contains("sk-secret"));
}
