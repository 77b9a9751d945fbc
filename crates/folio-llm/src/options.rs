//! Settings: the provider table, time-outs, retries, bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_types::{OrgId, Secret};
use serde::{Deserialize, Serialize};

use crate::retry::RetryOptions;
use folio_breaker::BreakerOptions;

mod check;
mod openai;

pub use check::{check_url, model_problem};
pub use folio_types::models::{ModelOptions, OutputLimitField};
pub use openai::OPENAI_BASE_URL;

/// The model endpoints and how they are called, as in this part of a `folio.toml`:
///
/// ```toml
#[doc = include_str!("options/example.toml")]
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The model of calls that name none. Empty: the first enabled one by name that is offered in chats.
    pub default_model: String,
    /// The embedding model of calls that name none. Empty: the first one by name.
    pub default_embedding_model: String,
    /// The models that stand in for one whose endpoint is held back or limits its rate, best first. Empty: none.
    pub fallbacks: Vec<String>,
    /// The endpoints, by a name of your choice.
    pub providers: BTreeMap<String, ProviderOptions>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Trying again, before the first token only.
    pub retries: RetryOptions,
    /// When an endpoint that keeps failing is left alone for a while.
    pub breaker: BreakerOptions,
    /// How many calls an organization may make in its turn where several wait for an endpoint, by its id: 1 to 1,000; 1 where it is
    /// not named.
    pub weights: BTreeMap<OrgId, u32>,
}

/// One endpoint that speaks the OpenAI chat completions protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderOptions {
    /// Whether it is used.
    pub enabled: bool,
    /// Where the paths `chat/completions` and `embeddings` are, as in `https://api.openai.com/v1`.
    pub base_url: String,
    /// The API key. Empty: none is sent.
    pub api_key: Secret,
    /// The environment variable that holds the API key; `api_key` goes before it.
    pub api_key_env: String,
    /// Whether organizations may call it with keys of their own: then the models, upstream names and prices that they give count, and
    /// the call is for the endpoint to charge. Not set: where it has a key itself, since an endpoint that wants keys checks them. One
    /// that takes any key would be called for nothing.
    pub own_keys: Option<bool>,
    /// Calls under way at once, 1 to 100,000.
    pub max_concurrent_calls: usize,
    /// Calls that wait for one of those to end, in turns of their organizations; more are refused at once, unless another
    /// organization has more of them waiting, whose newest is refused then.
    pub max_waiting_calls: usize,
    /// How the endpoint calls the limit of output tokens.
    pub output_limit_field: OutputLimitField,
    /// Whether to ask for usage in streams (`stream_options.include_usage`). Off for endpoints that refuse it; usage is
    /// counted here then.
    pub stream_usage: bool,
    /// The chat models, by the name that requests give.
    pub models: BTreeMap<String, ModelOptions>,
    /// The embedding models, by the name that requests give.
    pub embedding_models: BTreeMap<String, EmbeddingOptions>,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            base_url: String::new(),
            api_key: Secret::default(),
            api_key_env: String::new(),
            own_keys: None,
            models: BTreeMap::new(),
            embedding_models: BTreeMap::new(),
            max_concurrent_calls: 64,
            max_waiting_calls: 256,
            output_limit_field: OutputLimitField::default(),
            stream_usage: true,
        }
    }
}

impl ProviderOptions {
    /// Whether organizations may call it with keys of their own.
    pub fn takes_own_keys(&self) -> bool {
        self.own_keys.unwrap_or(!self.api_key.is_empty())
    }
}

/// An embedding model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingOptions {
    /// What the endpoint calls it. Empty: the same.
    pub upstream: String,
    /// Asks for vectors of this length. 0: the model's own.
    pub dimensions: u32,
}

/// How long a call waits for what. All of them end the call; none but the first is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For a connection.
    #[serde(with = "folio_types::seconds")]
    pub connect_seconds: Duration,
    /// From sending the request to the first token.
    #[serde(with = "folio_types::seconds")]
    pub first_token_seconds: Duration,
    /// From one token to the next.
    #[serde(with = "folio_types::seconds")]
    pub between_tokens_seconds: Duration,
    /// For everything: waiting for a free place, retries, and the whole stream.
    #[serde(with = "folio_types::seconds")]
    pub call_seconds: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_seconds: Duration::from_secs(5),
            first_token_seconds: Duration::from_secs(60),
            between_tokens_seconds: Duration::from_secs(30),
            call_seconds: Duration::from_secs(300),
        }
    }
}

#[cfg(test)]
mod tests;
