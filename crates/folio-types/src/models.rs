//! Stored settings of model providers and models.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::Timestamp;
use crate::ids::OrgId;

/// Model settings of an organization, or of the platform for all organizations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Version, incremented by each change. 0: never set.
    pub version: u64,
    /// Default model. Empty: the platform's default.
    pub default_model: String,
    /// Fallback models, best first, used if the endpoint of a model is unavailable or limits the rate. Empty: the
    /// platform's.
    pub fallbacks: Vec<String>,
    /// Providers by name. An organization's provider replaces the platform's provider of the same name.
    pub providers: BTreeMap<String, Provider>,
}

impl ModelSettings {
    /// Returns the pseudo organization under which the platform's settings are stored.
    pub fn platform() -> OrgId {
        OrgId::derive(&["platform"])
    }
}

/// Prices of a model in micro-dollars (10⁻⁶ USD) per million tokens. None: unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrices {
    /// Price of input tokens that were not cached.
    pub input: Option<u64>,
    /// Price of input tokens that the provider read from its cache. None: the price of other input tokens.
    pub cached_input: Option<u64>,
    /// Price of output tokens.
    pub output: Option<u64>,
}

/// An endpoint with the OpenAI chat completions protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// False disables the provider.
    pub enabled: bool,
    /// URL below which `chat/completions` and `models` are. Empty: the URL of the platform's provider of the same name.
    pub base_url: String,
    /// API key, encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SealedKey>,
    /// Name of the request field with the limit of output tokens.
    pub output_limit_field: OutputLimitField,
    /// Requests usage in streams.
    pub stream_usage: bool,
    /// Models, by the name that requests use.
    #[serde(deserialize_with = "as_far_as_known")]
    pub models: BTreeMap<String, ModelOptions>,
    /// Names in the endpoint's model list at the last query, sorted.
    pub available: Vec<String>,
    /// Time of the last query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovered_at: Option<Timestamp>,
}

impl Default for Provider {
    fn default() -> Self {
        Self {
            enabled: true,
            base_url: String::new(),
            key: None,
            output_limit_field: OutputLimitField::default(),
            stream_usage: true,
            models: BTreeMap::new(),
            available: Vec::new(),
            discovered_at: None,
        }
    }
}

impl Provider {
    /// Returns true if the provider is an account of its owner: its models, sizes and prices then apply if it has a URL
    /// or the platform's endpoint accepts its key. Without URL and key, it only restricts the platform's provider.
    pub fn is_own(&self) -> bool {
        !self.base_url.is_empty() || self.key.is_some()
    }
}

/// A stored API key, encrypted with AES-256-GCM for one organization and provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedKey {
    /// Id of the master key.
    pub master: String,
    /// Nonce, ciphertext and tag, in Base64.
    pub sealed: String,
}

/// Request field with the limit of output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// `max_tokens`, which most endpoints support.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's own endpoint requires.
    MaxCompletionTokens,
    /// The request contains no limit.
    None,
}

/// Deserializes stored models. Unknown fields of a newer version are ignored, so that both versions can run at once. In
/// settings an unknown field is an error.
fn as_far_as_known<'de, D: Deserializer<'de>>(stored: D) -> Result<BTreeMap<String, ModelOptions>, D::Error> {
    let known = serde_json::to_value(ModelOptions::default()).map_err(D::Error::custom)?;
    let models = BTreeMap::<String, Map<String, Value>>::deserialize(stored)?;
    let read = models.into_iter().map(|(name, mut options)| {
        options.retain(|field, _| known.get(field).is_some());
        Ok((name, serde_json::from_value(Value::Object(options)).map_err(D::Error::custom)?))
    });
    read.collect()
}

/// A chat model. Unknown fields are an error, except in stored providers ([`Provider::models`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptions {
    /// False disables the model.
    pub enabled: bool,
    /// Name of the model at the endpoint. Empty: the same name.
    pub upstream: String,
    /// Maximum tokens of prompt and answer together.
    pub context_tokens: u32,
    /// Maximum tokens of an answer.
    pub max_output_tokens: u32,
    /// True if chats may use the model.
    pub chat: bool,
    /// True if prompts (extractions) may use the model.
    pub prompts: bool,
    /// True if the model supports thinking. If false, requests contain neither the parameter nor earlier thinking.
    pub thinking: bool,
    /// True if the model supports tools. If false, requests contain no tools.
    pub tools: bool,
    /// True if the endpoint supports a JSON Schema as `response_format`. If false, the schema is added to the prompt.
    pub json_schema: bool,
    /// True if the model accepts images. Not used yet.
    pub vision: bool,
    /// Token budget for thinking, at least 1,024.
    pub thinking_budget_tokens: u32,
    /// Price per million input tokens in micro-dollars (10⁻⁶ USD). None: unknown.
    pub input_price: Option<u64>,
    /// Price per million cached input tokens in micro-dollars. None: unknown.
    pub cached_input_price: Option<u64>,
    /// Price per million output tokens in micro-dollars. None: unknown.
    pub output_price: Option<u64>,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            upstream: String::new(),
            context_tokens: 32_768,
            max_output_tokens: 4_096,
            chat: true,
            prompts: true,
            thinking: false,
            tools: true,
            json_schema: true,
            vision: false,
            thinking_budget_tokens: 4_096,
            input_price: None,
            cached_input_price: None,
            output_price: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_of_a_stored_model_are_ignored_and_unknown_settings_are_refused() {
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
        let wrong = json!({ "providers": { "mine": { "models": { "large": { "upstream": 7 } } } } });
        assert!(serde_json::from_value::<ModelSettings>(wrong).is_err(), "a known field of another type");
    }
}
