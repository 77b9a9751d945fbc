//! Options of models.

use serde::{Deserialize, Serialize};

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

/// A chat model. Unknown fields are an error, except in stored providers.
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
            // proto: ProviderModel.context_tokens "0: {}."
            context_tokens: 32_768,
            // proto: ProviderModel.max_output_tokens "0: {}."
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
