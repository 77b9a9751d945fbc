use serde_json::Value;

use super::*;

const TABLE: &str = r#"{
    "default_model": "fast",
    "providers": {
        "here": {
            "base_url": "http://127.0.0.1:9/v1",
            "api_key_env": "HERE_KEY",
            "models": {"fast": {"upstream": "vendor/fast-1", "input_price": 150000}, "off": {"enabled": false},
                "vectors": {"kind": "embedding"}}
        }
    }
}"#;

fn variable(name: &str) -> Option<String> {
    (name == "HERE_KEY").then(|| "sk-from-environment\n".to_owned())
}

fn problems(change: impl FnOnce(&mut Options)) -> String {
    let mut options: Options = serde_json::from_str(TABLE).unwrap();
    change(&mut options);
    options.resolve(variable).unwrap_err().to_string()
}

fn provider(options: &mut Options) -> &mut ProviderOptions {
    options.providers.get_mut("here").unwrap()
}

#[test]
fn a_table_is_read_with_defaults_and_its_key_from_the_environment() {
    let options = serde_json::from_str::<Options>(TABLE).unwrap().resolve(variable).unwrap();
    let provider = &options.providers["here"];
    assert_eq!(provider.api_key.reveal(), "sk-from-environment");
    assert_eq!(provider.models["fast"].context_tokens, 32_768);
    assert_eq!(provider.models["vectors"].context_tokens, 512);
    assert_eq!(options.timeouts, Timeouts::default());
    let shown = format!("{options:?}{}", serde_json::to_string(&options).unwrap());
    assert!(!shown.contains("sk-from"), "{shown}");
    assert!(Options::default().resolve(|_| None).is_ok(), "no provider is no error");
}

#[test]
fn unknown_settings_are_refused_by_name() {
    for text in [
        r#"{"provider": {}}"#,
        r#"{"providers": {"a": {"base-url": ""}}}"#,
        r#"{"timeouts": {"connect": 1}}"#,
        r#"{"providers": {"a": {"models": {"m": {"price": 1}}}}}"#,
    ] {
        let error = serde_json::from_str::<Options>(text).unwrap_err().to_string();
        assert!(error.contains("unknown field"), "{error}");
    }
}

#[test]
fn every_problem_is_reported_with_its_path() {
    for (wanted, found) in [
        ("providers.here.base_url: is missing", problems(|o| provider(o).base_url.clear())),
        ("providers.here.base_url: is not a URL", problems(|o| provider(o).base_url = "nowhere".into())),
        ("providers.here.base_url: must start with", problems(|o| provider(o).base_url = "ftp://a/b".into())),
        ("not contain a user or password", problems(|o| provider(o).base_url = "http://me:secret@a/b".into())),
        ("no query", problems(|o| provider(o).base_url = "http://a/b?c=d".into())),
        ("no variable \"OTHER\"", problems(|o| provider(o).api_key_env = "OTHER".into())),
        ("is the placeholder", problems(|o| provider(o).api_key = Secret::new("********"))),
        ("contains spaces", problems(|o| provider(o).api_key = Secret::new("a\nb"))),
        ("default_model: \"off\" is not an enabled model; enabled: fast", problems(|o| o.default_model = "off".into())),
        ("default_embedding_model: \"x\"", problems(|o| o.default_embedding_model = "x".into())),
        ("default_embedding_model: \"fast\" is not", problems(|o| o.default_embedding_model = "fast".into())),
        ("default_model: \"vectors\" is not", problems(|o| o.default_model = "vectors".into())),
        ("rerank model; enabled: none", problems(|o| o.default_rerank_model = "vectors".into())),
        (
            "default_image_model: \"fast\" is not an enabled model with vision; enabled: none",
            problems(|o| o.default_image_model = "fast".into()),
        ),
        ("fallbacks: \"vectors\" is not", problems(|o| o.fallbacks = vec!["vectors".into()])),
        (
            "models.fast.dimensions: is only permitted",
            problems(|o| provider(o).models.get_mut("fast").unwrap().dimensions = 1),
        ),
        (
            "models.fast.query_prefix: is only permitted",
            problems(|o| provider(o).models.get_mut("fast").unwrap().query_prefix = "query: ".to_owned()),
        ),
        (
            "models.vectors.passage_prefix: must be at most 500 characters",
            problems(|o| provider(o).models.get_mut("vectors").unwrap().passage_prefix = "x".repeat(501)),
        ),
        (
            "models.vectors.query_prefix: must be at most 500 characters",
            problems(|o| provider(o).models.get_mut("vectors").unwrap().query_prefix = "a\tb".to_owned()),
        ),
        (
            "models.vectors.dimensions: must be from 0 to 8192",
            problems(|o| provider(o).models.get_mut("vectors").unwrap().dimensions = 8_193),
        ),
        (
            "models.vectors.context_tokens: must be from 64",
            problems(|o| provider(o).models.get_mut("vectors").unwrap().context_tokens = 63),
        ),
        ("max_concurrent_calls", problems(|o| provider(o).max_concurrent_calls = 0)),
        ("timeouts.connect_seconds", problems(|o| o.timeouts.connect_seconds = Duration::ZERO)),
        ("retries.retries", problems(|o| o.retries.retries = 11)),
        ("retries.loading_seconds", problems(|o| o.retries.loading_seconds = Duration::from_secs(86_401))),
        (
            "timeouts.first_token_seconds_per_thousand_tokens",
            problems(|o| o.timeouts.first_token_seconds_per_thousand_tokens = Duration::from_secs(86_401)),
        ),
        (
            "models.fast.max_output_tokens",
            problems(|o| {
                let fast = provider(o).models.get_mut("fast").unwrap();
                (fast.context_tokens, fast.max_output_tokens) = (32_768, 40_000);
            }),
        ),
        (
            "models.fast.context_tokens: must be from 1000 to 100000000",
            problems(|o| provider(o).models.get_mut("fast").unwrap().context_tokens = 999),
        ),
        (
            "without whitespace and control characters",
            problems(|o| {
                provider(o).models.insert("a b".into(), ModelOptions::default());
            }),
        ),
        (
            "provider \"here\" has a model with the same name",
            problems(|o| {
                let second = provider(o).clone();
                o.providers.insert("second".into(), second);
            }),
        ),
    ] {
        assert!(found.contains(wanted), "{wanted:?} not in {found:?}");
        assert!(!found.contains("secret"), "{found}");
    }
    let many = problems(|o| {
        provider(o).base_url.clear();
        o.retries.retries = 99;
    });
    assert!(many.contains("base_url") && many.contains("retries.retries"), "{many}");
}

#[test]
fn the_limit_to_the_first_token_grows_with_the_request() {
    let timeouts = Timeouts::default();
    for (bytes, seconds) in [(0, 60.0), (4_000, 70.0), (20_000, 110.0), (40_000_000, 300.0), (usize::MAX, 300.0)] {
        assert_eq!(timeouts.first_token(bytes), Duration::from_secs_f64(seconds), "{bytes}");
    }
    let constant = Timeouts { first_token_seconds_per_thousand_tokens: Duration::ZERO, ..timeouts };
    assert_eq!(constant.first_token(1 << 20), Duration::from_secs(60));
}

#[test]
fn a_disabled_provider_is_not_checked() {
    let mut options: Options = serde_json::from_str(TABLE).unwrap();
    options.default_model.clear();
    provider(&mut options).enabled = false;
    provider(&mut options).base_url.clear();
    provider(&mut options).api_key_env = "OTHER".into();
    assert!(options.resolve(|_| None).is_ok());
}

#[test]
fn the_table_of_the_openai_variables_is_usable() {
    let own = Options::openai(Secret::new("sk-1"), None, None).resolve(|_| None).unwrap();
    assert_eq!(own.providers["openai"].output_limit_field, OutputLimitField::MaxCompletionTokens);
    assert!(own.providers["openai"].models[&own.default_model].input_price.is_some());
    assert!(own.providers["openai"].takes_own_keys());
    let vectors = &own.providers["openai"].models["text-embedding-3-small"];
    assert_eq!((vectors.kind, vectors.context_tokens, vectors.dimensions), (ModelKind::Embedding, 8_191, 1_536));

    let other = Options::openai(Secret::new("any"), Some("http://127.0.0.1:8000/v1/"), Some("org/model:7b"));
    let other = other.resolve(|_| None).unwrap();
    assert_eq!(other.default_model, "org/model:7b");
    assert_eq!(other.providers["openai"].models.len(), 1);
    assert_eq!(own.providers["openai"].models["gpt-4o"].context_tokens, 128_000);
    assert_eq!(other.providers["openai"].models["org/model:7b"].context_tokens, 32_768, "an unknown model");
    assert!(!other.providers["openai"].takes_own_keys(), "another endpoint may accept any key");
    assert_eq!(other.providers["openai"].output_limit_field, OutputLimitField::MaxTokens);
}

/// Returns the keys of `known`, also of nested objects, that no value of `given` contains.
fn lacking(known: &Value, given: &[&Value]) -> Vec<String> {
    let entry = |map: &str| match map {
        "providers" => Some(serde_json::to_value(ProviderOptions::default()).unwrap()),
        "models" => Some(serde_json::to_value(ModelOptions::default()).unwrap()),
        _ => None,
    };
    let lacking = |(name, below): (&String, &Value)| {
        let settings: Vec<&Value> = given.iter().filter_map(|given| given.get(name)).collect();
        match entry(name) {
            _ if settings.is_empty() => vec![name.clone()],
            Some(entry) => {
                let entries = settings.iter().filter_map(|map| map.as_object()).flat_map(|map| map.values());
                lacking(&entry, &entries.collect::<Vec<_>>())
            }
            None => lacking(below, &settings),
        }
    };
    known.as_object().into_iter().flatten().flat_map(lacking).collect()
}

#[test]
fn the_documented_example_has_every_key() {
    let example: Value = toml::from_str(include_str!("example.toml")).unwrap();
    let known = serde_json::to_value(Options::default()).unwrap();
    assert_eq!(lacking(&known, &[&example["models"]]), Vec::<String>::new());
}

#[test]
fn the_documented_example_is_read_and_written() {
    #[derive(Deserialize)]
    struct File {
        models: Options,
    }
    let File { models: options } = toml::from_str(include_str!("example.toml")).unwrap();
    let options = options.resolve(|name| (name == "OPENAI_API_KEY").then(|| "sk-1".to_owned())).unwrap();
    assert_eq!(options.timeouts.first_token_seconds, std::time::Duration::from_secs(90));
    let written = toml::to_string(&options).unwrap();
    assert!(!written.contains("sk-1"), "{written}");
    let mut read: Options = toml::from_str(&written).unwrap();
    read.providers.get_mut("openai").unwrap().api_key = Secret::new("sk-1");
    assert_eq!(read, options);
}

#[test]
fn weights_are_read_by_organization_and_bounded() {
    let org = folio_types::OrgId::derive(&["weights"]);
    let text = format!("[weights]\n{org} = 3\n");
    let options: Options = toml::from_str(&text).unwrap();
    assert_eq!(options.resolve(|_| None).unwrap().weights[&org], 3);
    for bad in ["= 0", "= 1001"] {
        let options: Options = toml::from_str(&text.replace("= 3", bad)).unwrap();
        let message = options.resolve(|_| None).unwrap_err().to_string();
        assert!(message.contains(&format!("models.weights.{org}: must be from 1 to 1000")), "{message}");
    }
}
