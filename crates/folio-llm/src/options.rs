//! Settings: provider table, timeouts, retries, bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_types::{OrgId, Secret};
use serde::{Deserialize, Serialize};

use crate::retry::RetryOptions;
use folio_breaker::BreakerOptions;

mod check;
mod context_sizes;
mod input_sizes;
mod local;
mod openai;

pub(crate) use check::{DIMENSIONS_MAX, THINKING_TOKENS_MIN, is_model_name};
pub use check::{check_http_url, check_url, model_problem};
pub(crate) use context_sizes::is_context_size;
pub use context_sizes::{complete_sizes, known_context_tokens};
pub use folio_types::models::{ModelKind, ModelOptions, OutputLimitField};
pub use input_sizes::known_input_tokens;
pub use local::LocalOptions;
pub use openai::OPENAI_BASE_URL;

/// Estimated size of a token in a request, in bytes.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// Settings of the model endpoints, as in this part of a `folio.toml`:
///
/// ```toml
#[doc = include_str!("options/example.toml")]
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Default model. Empty: the first enabled chat model by name.
    pub default_model: String,
    /// Default embedding model. Empty: the first enabled embedding model by name.
    pub default_embedding_model: String,
    /// Default rerank model. Empty: none.
    pub default_rerank_model: String,
    /// Default model for descriptions of images, a chat model with `vision`. Empty: none, so that no image is described.
    pub default_image_model: String,
    /// Fallback models, best first, used if the endpoint of a model is unavailable or limits the rate. Empty: none.
    pub fallbacks: Vec<String>,
    /// Providers by name. The operator chooses the names.
    pub providers: BTreeMap<String, ProviderOptions>,
    pub timeouts: Timeouts,
    pub local: LocalOptions,
    /// Retries, which occur only before the first delta of text.
    pub retries: RetryOptions,
    /// Circuit breaker of each endpoint.
    pub breaker: BreakerOptions,
    /// Weights of organizations in the queue of an endpoint, by organization id: 1 to 1,000. Absent: 1.
    pub weights: BTreeMap<OrgId, u32>,
}

folio_types::settings! {
    /// An endpoint with the OpenAI protocol.
    pub struct ProviderOptions {
        pub enabled: bool = true,
        /// URL below which `chat/completions`, `embeddings` and `rerank` are, such as `https://api.openai.com/v1`.
        pub base_url: String = String::new(),
        /// API key. Empty: no key is sent.
        pub api_key: Secret = Secret::default(),
        /// Environment variable with the API key. `api_key` has precedence.
        pub api_key_env: String = String::new(),
        /// True if organizations may use the provider with their own keys, models, upstream names and prices; the
        /// provider then charges them directly. Default: true if the provider has a key itself, because an endpoint
        /// without keys would serve those calls for free.
        pub own_keys: Option<bool> = None,
        /// Maximum concurrent calls, 1 to 100,000.
        pub max_concurrent_calls: usize = 64,
        /// Maximum waiting calls. A further call is refused, or evicts the newest call of the organization with the
        /// most waiting calls for its weight.
        pub max_waiting_calls: usize = 256,
        /// Name of the request field with the maximum number of output tokens.
        pub output_limit_field: OutputLimitField = OutputLimitField::default(),
        /// Requests usage in streams (`stream_options.include_usage`). Set to false for endpoints that refuse it; Folio
        /// then counts the tokens.
        pub stream_usage: bool = true,
        /// Models, by the name that requests use.
        pub models: BTreeMap<String, ModelOptions> = BTreeMap::new(),
    }
}

impl ProviderOptions {
    pub fn takes_own_keys(&self) -> bool {
        self.own_keys.unwrap_or(!self.api_key.is_empty())
    }
}

folio_types::settings! {
    /// Time limits of a call. Reaching one ends the call; only a connect timeout is retried.
    #[derive(Copy)]
    pub struct Timeouts {
        pub connect_seconds: Duration as "connect_seconds" = Duration::from_secs(5),
        /// Limit from sending the request to the first token, apart from the part for the size of the prompt.
        pub first_token_seconds: Duration as "first_token_seconds" = Duration::from_secs(60),
        /// Increase of the limit to the first token for each 1,000 tokens of the prompt. 0: no increase.
        pub first_token_seconds_per_thousand_tokens: Duration as "first_token_seconds_per_thousand_tokens" =
            Duration::from_secs(10),
        pub between_tokens_seconds: Duration as "between_tokens_seconds" = Duration::from_secs(30),
        /// Limit of the whole call: waiting for a permit, retries, and the stream.
        pub call_seconds: Duration as "call_seconds" = Duration::from_secs(300),
    }
}

impl Timeouts {
    /// Returns the limit to the first token of a request of this size:
    /// `first_token_seconds + first_token_seconds_per_thousand_tokens × tokens / 1,000`, at most `call_seconds`. The
    /// tokens are estimated as a quarter of the bytes.
    pub fn first_token(&self, request_bytes: usize) -> Duration {
        let tokens = u32::try_from(request_bytes / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        let prompt = self.first_token_seconds_per_thousand_tokens.saturating_mul(tokens) / 1_000;
        self.first_token_seconds.saturating_add(prompt).min(self.call_seconds)
    }
}

#[cfg(test)]
mod tests;
