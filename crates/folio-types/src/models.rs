//! What an organization, or the platform, says of model providers.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::Timestamp;
use crate::ids::OrgId;

/// What is set of models: by an organization for itself, or by the platform for all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSettings {
    /// Grows by one with each change; 0: never set.
    pub version: u64,
    /// The model of calls that name none. Empty: as the platform has it.
    pub default_model: String,
    /// The models that stand in for one whose endpoint is held back or limits its rate, best first. Empty: as the
    /// platform has it.
    pub fallbacks: Vec<String>,
    /// The providers, by name. One of the platform's name stands in the place of the platform's.
    pub providers: BTreeMap<String, Provider>,
}

impl ModelSettings {
    /// Whose the platform's own are: an organization's that nobody is of.
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

/// An endpoint that speaks the OpenAI chat completions protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provider {
    /// Whether it is used.
    pub enabled: bool,
    /// Where the paths `chat/completions` and `models` are. Empty: where the platform's provider of the same name has them.
    pub base_url: String,
    /// The API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SealedKey>,
    /// How the endpoint calls the limit of output tokens.
    pub output_limit_field: OutputLimitField,
    /// Whether to ask for usage in streams.
    pub stream_usage: bool,
    /// The models, by the name that requests give.
    #[serde(deserialize_with = "as_far_as_known")]
    pub models: BTreeMap<String, ModelOptions>,
    /// What the endpoint's model list named when it was last asked, in order.
    pub available: Vec<String>,
    /// When that was.
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
    /// Whether it is set as an account of whoever set it: then its models, sizes and prices count, too, if it has a URL or the
    /// platform's endpoint takes its key. One that has neither URL nor key is the platform's, and only says what of it is offered.
    pub fn is_own(&self) -> bool {
        !self.base_url.is_empty() || self.key.is_some()
    }
}

/// A key as it is stored: encrypted with AES-256-GCM for one organization and provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedKey {
    /// The id of the master key.
    pub master: String,
    /// Nonce, ciphertext and tag, in Base64.
    pub sealed: String,
}

/// The request's field for the limit of output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimitField {
    /// `max_tokens`, which most endpoints know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's own endpoint wants.
    MaxCompletionTokens,
    /// No limit is sent.
    None,
}

/// Models as they are stored. What a newer build says of them is passed over, so that both can serve at once; in settings a field
/// that is not known is a slip, and refused.
fn as_far_as_known<'de, D: Deserializer<'de>>(stored: D) -> Result<BTreeMap<String, ModelOptions>, D::Error> {
    let known = serde_json::to_value(ModelOptions::default()).map_err(D::Error::custom)?;
    let models = BTreeMap::<String, Map<String, Value>>::deserialize(stored)?;
    let read = models.into_iter().map(|(name, mut options)| {
        options.retain(|field, _| known.get(field).is_some());
        Ok((name, serde_json::from_value(Value::Object(options)).map_err(D::Error::custom)?))
    });
    read.collect()
}

/// A chat model. Unknown fields of one are refused: see [`Provider::models`] for what is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptions {
    /// Whether it may be used.
    pub enabled: bool,
    /// What the endpoint calls it. Empty: the same.
    pub upstream: String,
    /// Tokens of prompt and answer together.
    pub context_tokens: u32,
    /// Tokens of an answer at most.
    pub max_output_tokens: u32,
    /// Offered in chats.
    pub chat: bool,
    /// Offered to prompts (extraction).
    pub prompts: bool,
    /// Whether it can be asked to think. One that cannot never gets the parameter, nor earlier thinking.
    pub thinking: bool,
    /// Whether it can be given tools. One that cannot gets none, and only answers.
    pub tools: bool,
    /// Whether its answer can be held to a JSON Schema (`response_format`). One that cannot is told the schema in words.
    pub json_schema: bool,
    /// Whether it can be shown images. Nothing shows any yet.
    pub vision: bool,
    /// Tokens that it may think, where it is asked to; from 1,024.
    pub thinking_budget_tokens: u32,
    /// Micro-dollars (10⁻⁶ USD) per million input tokens, where known.
    pub input_price: Option<u64>,
    /// Micro-dollars per million input tokens that the endpoint had in its cache, where known.
    pub cached_input_price: Option<u64>,
    /// Micro-dollars per million output tokens, where known.
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
    fn what_a_newer_build_stored_of_a_model_is_passed_over_and_settings_are_held_to_what_is_known() {
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
