//! Validation of the provider table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use folio_types::Secret;
use folio_types::limits::DAY;
use folio_types::settings::{InvalidSettings, Problems};

use super::{ModelKind, ModelOptions, Options, ProviderOptions, complete_sizes};

// proto: ProviderModel.name "1 to {} characters"
const NAME_CHARS: usize = 200;
/// Minimum thinking budget that endpoints accept, in tokens.
pub(crate) const THINKING_TOKENS_MIN: u32 = 1_024;
pub(super) const CONTEXT_TOKENS_MIN: u32 = 1_000;
// proto: ProviderModel.context_tokens "1,000 to {}."
pub(super) const CONTEXT_TOKENS_MAX: u32 = 100_000_000;
/// Minimum tokens of an input of an embedding or rerank model.
// proto: ProviderModel.context_tokens "one input, at least {};"
pub(super) const INPUT_TOKENS_MIN: u32 = 64;
// proto: ProviderModel.dimensions "at most {}."
pub(crate) const DIMENSIONS_MAX: u32 = 8_192;
/// Maximum characters of the text before each query or passage.
// proto: ProviderModel.query_prefix "at most {} characters"
// proto: ProviderModel.passage_prefix "at most {} characters"
const PREFIX_CHARS: usize = 500;
/// Maximum price in micro-dollars. A higher price is a mistake, and sums could overflow.
// proto: ProviderModel.input_price_microdollars "at most {}."
// proto: ProviderModel.cached_input_price_microdollars "at most {}."
// proto: ProviderModel.output_price_microdollars "at most {}."
const PRICE_MAX: u64 = 1_000_000_000_000;
/// The problem of a setting of vectors of another model.
const EMBEDDING_ONLY: &str = "is only permitted with kind = \"embedding\"";

impl Options {
    /// Validates all settings, reads the API keys from environment variables, and completes the sizes of models. The
    /// error lists every problem with the path of its setting and contains no key.
    pub fn resolve(mut self, variable: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidSettings> {
        let mut problems = Problems::of("models");
        for (name, provider) in &mut self.providers {
            resolve_key(name, provider, &variable, &mut problems);
        }
        self.check_numbers(&mut problems);
        for (name, provider) in &self.providers {
            check_provider(name, provider, &mut problems);
        }
        self.check_names(&mut problems);
        problems.into_result()?;
        for provider in self.providers.values_mut() {
            for (name, model) in &mut provider.models {
                complete_sizes(name, model, None);
            }
        }
        Ok(self)
    }

    fn check_numbers(&self, problems: &mut Problems) {
        for (name, value) in [
            ("connect_seconds", self.timeouts.connect_seconds),
            ("first_token_seconds", self.timeouts.first_token_seconds),
            ("between_tokens_seconds", self.timeouts.between_tokens_seconds),
            ("call_seconds", self.timeouts.call_seconds),
        ] {
            let is_valid = value >= Duration::from_millis(1) && value <= DAY;
            problems.check(is_valid, format_args!("timeouts.{name}"), "must be from 0.001 to 86400 (a day)");
        }
        for (org, weight) in &self.weights {
            problems.number(format_args!("weights.{org}"), *weight, 1, 1_000);
        }
        problems.check(self.retries.retries <= 10, "retries.retries", "must be at most 10");
        for (path, value) in [
            ("retries.base_seconds", self.retries.base_seconds),
            ("retries.max_seconds", self.retries.max_seconds),
            ("retries.max_retry_after_seconds", self.retries.max_retry_after_seconds),
            ("retries.loading_seconds", self.retries.loading_seconds),
            ("timeouts.first_token_seconds_per_thousand_tokens", self.timeouts.first_token_seconds_per_thousand_tokens),
            ("breaker.open_seconds", self.breaker.open_seconds),
        ] {
            problems.check(value <= DAY, path, "must be at most 86400 (a day)");
        }
    }

    /// Checks that each model name has one provider and that the defaults exist.
    fn check_names(&self, problems: &mut Problems) {
        let mut models: BTreeMap<&str, (&str, ModelKind)> = BTreeMap::new();
        let mut with_vision: BTreeSet<&str> = BTreeSet::new();
        for (provider, options) in self.providers.iter().filter(|(_, options)| options.enabled) {
            for (name, model) in options.models.iter().filter(|(_, model)| model.enabled) {
                if model.vision && model.kind == ModelKind::Chat {
                    with_vision.insert(name);
                }
                if let Some((other, _)) = models.insert(name, (provider, model.kind)) {
                    problems.add(format_args!("providers.{provider}.models.{name}"), duplicate_name(other));
                }
            }
        }
        let defaults = [
            ("default_model", &self.default_model, ModelKind::Chat),
            ("default_embedding_model", &self.default_embedding_model, ModelKind::Embedding),
            ("default_rerank_model", &self.default_rerank_model, ModelKind::Rerank),
        ];
        let defaults = defaults.into_iter().filter(|(_, name, _)| !name.is_empty());
        let fallbacks = self.fallbacks.iter().map(|name| ("fallbacks", name, ModelKind::Chat));
        for (setting, name, kind) in defaults.chain(fallbacks) {
            if models.get(name.as_str()).is_none_or(|(_, found)| *found != kind) {
                let enabled = models.iter().filter(|(_, (_, found))| *found == kind).map(|(name, _)| *name);
                let kind = match kind {
                    ModelKind::Chat => "model",
                    ModelKind::Embedding => "embedding model",
                    ModelKind::Rerank => "rerank model",
                };
                problems.add(setting, not_enabled(name, kind, enabled));
            }
        }
        let image = self.default_image_model.as_str();
        if !image.is_empty() && !with_vision.contains(image) {
            problems.add("default_image_model", not_enabled(image, "model with vision", with_vision.iter().copied()));
        }
    }
}

fn duplicate_name(other: &str) -> String {
    format!("provider {other:?} has a model with the same name; rename one and set its `upstream`")
}

fn not_enabled<'a>(name: &str, kind: &str, enabled: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = enabled.take(20).collect();
    format!(
        "{name:?} is not an enabled {kind}; enabled: {}",
        if names.is_empty() { "none".into() } else { names.join(", ") }
    )
}

fn resolve_key(
    name: &str,
    provider: &mut ProviderOptions,
    variable: &impl Fn(&str) -> Option<String>,
    problems: &mut Problems,
) {
    if !provider.enabled {
        return;
    }
    if provider.api_key.is_empty() && !provider.api_key_env.is_empty() {
        match variable(&provider.api_key_env) {
            Some(key) if !key.trim().is_empty() => provider.api_key = Secret::new(&key),
            _ => problems.add(
                format_args!("providers.{name}.api_key_env"),
                format_args!("the environment has no variable {:?}", provider.api_key_env),
            ),
        }
    }
    let path = format_args!("providers.{name}.api_key").to_string();
    problems.check(
        !provider.api_key.is_mask(),
        &path,
        "is the placeholder that printed settings show instead of a key; set the key itself",
    );
    let visible = provider.api_key.reveal().bytes().all(|b| b.is_ascii_graphic());
    problems.check(visible, &path, "contains spaces, line breaks or non-ASCII characters");
}

fn check_provider(name: &str, provider: &ProviderOptions, problems: &mut Problems) {
    if !provider.enabled {
        return;
    }
    if let Err(problem) = check_url(&provider.base_url) {
        problems.add(format_args!("providers.{name}.base_url"), problem);
    }
    let calls = (1..=100_000).contains(&provider.max_concurrent_calls);
    problems.check(calls, format_args!("providers.{name}.max_concurrent_calls"), "must be from 1 to 100,000");
    let waiting = provider.max_waiting_calls <= 1_000_000;
    problems.check(waiting, format_args!("providers.{name}.max_waiting_calls"), "must be at most 1,000,000");
    for (model, options) in &provider.models {
        check_name(model, format_args!("providers.{name}.models.{model:?}"), problems);
        check_model(&format!("providers.{name}.models.{model}"), options, problems);
    }
}

fn check_name(model: &str, path: impl Display, problems: &mut Problems) {
    let problem = format_args!("must be 1 to {NAME_CHARS} characters without whitespace and control characters");
    problems.check(is_model_name(model), path, problem);
}

pub(crate) fn is_model_name(text: &str) -> bool {
    let is_visible = text.chars().all(|c| !c.is_control() && !c.is_whitespace());
    is_visible && (1..=NAME_CHARS).contains(&text.chars().count())
}

fn is_prefix(text: &str) -> bool {
    text.chars().count() <= PREFIX_CHARS && text.chars().all(|c| c == '\n' || !c.is_control())
}

/// Returns the problems of a model as one text. None: the model is valid.
pub fn model_problem(name: &str, model: &ModelOptions) -> Option<String> {
    let mut problems = Problems::of("model");
    check_name(name, "name", &mut problems);
    if !model.upstream.is_empty() {
        check_name(&model.upstream, "upstream", &mut problems);
    }
    check_model("", model, &mut problems);
    let found = problems.into_result().err()?.problems;
    Some(found.join("; ").replace("model..", "").replace("model.", ""))
}

fn check_model(path: &str, model: &ModelOptions, problems: &mut Problems) {
    let (context, is_chat) = (model.context_tokens, model.kind == ModelKind::Chat);
    if context != 0 {
        let min = if is_chat { CONTEXT_TOKENS_MIN } else { INPUT_TOKENS_MIN };
        problems.number(format_args!("{path}.context_tokens"), context, min, CONTEXT_TOKENS_MAX);
    }
    let is_less = context == 0 || model.max_output_tokens < context;
    let output = !is_chat || (model.max_output_tokens >= 1 && is_less);
    problems.check(output, format_args!("{path}.max_output_tokens"), "must be at least 1 and less than context_tokens");
    let dimensions = format!("{path}.dimensions");
    problems.number(&dimensions, model.dimensions, 0, DIMENSIONS_MAX);
    let has_vectors = model.dimensions == 0 || model.kind == ModelKind::Embedding;
    problems.check(has_vectors, &dimensions, EMBEDDING_ONLY);
    for (name, prefix) in [("query_prefix", &model.query_prefix), ("passage_prefix", &model.passage_prefix)] {
        let setting = format!("{path}.{name}");
        let problem =
            format_args!("must be at most {PREFIX_CHARS} characters, without control characters except line breaks");
        problems.check(is_prefix(prefix), &setting, problem);
        problems.check(prefix.is_empty() || model.kind == ModelKind::Embedding, &setting, EMBEDDING_ONLY);
    }
    let thinking = !model.thinking || model.thinking_budget_tokens >= THINKING_TOKENS_MIN;
    let problem = format_args!("must be at least {THINKING_TOKENS_MIN}");
    problems.check(thinking, format_args!("{path}.thinking_budget_tokens"), problem);
    for (name, price) in [
        ("input_price", model.input_price),
        ("cached_input_price", model.cached_input_price),
        ("output_price", model.output_price),
    ] {
        let is_valid = price.is_none_or(|price| price <= PRICE_MAX);
        let problem = format_args!("must be at most {PRICE_MAX} micro-dollars per million tokens");
        problems.check(is_valid, format_args!("{path}.{name}"), problem);
    }
}

/// Validates the URL of an endpoint. The error does not contain the URL.
pub fn check_url(text: &str) -> Result<reqwest::Url, String> {
    if text.is_empty() {
        return Err("is missing; set the URL without /chat/completions, such as https://api.openai.com/v1".into());
    }
    let url = check_http_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment".into());
    }
    Ok(url)
}

/// Validates an absolute HTTP URL without user and password. The error does not contain the URL, which may contain a
/// password.
pub fn check_http_url(text: &str) -> Result<reqwest::Url, String> {
    let url = reqwest::Url::parse(text).map_err(|error| format!("is not a URL ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("must start with https:// or http:// and a host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user or password, because URLs are shown and logged".into());
    }
    Ok(url)
}
