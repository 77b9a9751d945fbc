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

/// The task of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Answers messages (`chat/completions`).
    #[default]
    Chat,
    /// Returns a vector for each text (`embeddings`).
    Embedding,
    /// Rates texts by their relevance to a query (`rerank`).
    Rerank,
}

/// Context size of a chat model whose size is unknown, in tokens.
// proto: ProviderModel.context_tokens "otherwise {}."
pub const CONTEXT_TOKENS_DEFAULT: u32 = 32_768;

/// Maximum tokens of an input of an embedding or rerank model whose size is unknown.
// proto: ProviderModel.context_tokens "default is {} if"
pub const INPUT_TOKENS_DEFAULT: u32 = 512;

crate::settings! {
    /// A model. Unknown fields are an error, except in stored providers.
    #[derive(Eq)]
    pub struct ModelOptions {
        /// False disables the model.
        pub enabled: bool = true,
        /// The task. The fields about answers, tools and images have no effect on embedding and rerank models.
        pub kind: ModelKind = ModelKind::Chat,
        /// Name of the model at the endpoint. Empty: the same name.
        pub upstream: String = String::new(),
        /// Maximum tokens of prompt and answer together; of an embedding or rerank model: of one input. 0: the size that the
        /// endpoint states, otherwise the known size of the model, otherwise [`CONTEXT_TOKENS_DEFAULT`] or
        /// [`INPUT_TOKENS_DEFAULT`].
        pub context_tokens: u32 = 0,
        /// Length of the vectors of an embedding model, which requests state and answers must have. 0: requests state no
        /// length, and answers may have any.
        pub dimensions: u32 = 0,
        /// Text before each query of an embedding model, such as `query: `. Empty: none.
        pub query_prefix: String = String::new(),
        /// Text before each passage of an embedding model, such as `passage: `. Empty: none.
        pub passage_prefix: String = String::new(),
        /// Maximum tokens of an answer. If `context_tokens` is 0, at most a half of the context.
        // proto: ProviderModel.max_output_tokens "0: {}."
        pub max_output_tokens: u32 = 4_096,
        /// True if chats may use the model.
        pub chat: bool = true,
        /// True if prompts (extractions) may use the model.
        pub prompts: bool = true,
        /// True if the model supports thinking. If false, requests contain neither the parameter nor earlier thinking.
        pub thinking: bool = false,
        /// True if the model supports tools. If false, requests contain no tools.
        pub tools: bool = true,
        /// True if the endpoint supports a JSON Schema as `response_format`. If false, the schema is added to the
        /// prompt.
        pub json_schema: bool = true,
        /// True if extractions request a quote and a confidence for each value from the model. Small models then extract fewer
        /// values correctly.
        pub evidence: bool = false,
        /// True if the model accepts images in messages, and may describe images. If false, requests contain no image.
        pub vision: bool = false,
        /// Token budget for thinking, at least 1,024.
        pub thinking_budget_tokens: u32 = 4_096,
        /// Price per million input tokens in micro-dollars (10⁻⁶ USD). None: unknown.
        pub input_price: Option<u64> = None,
        /// Price per million cached input tokens in micro-dollars. None: unknown.
        pub cached_input_price: Option<u64> = None,
        /// Price per million output tokens in micro-dollars. None: unknown.
        pub output_price: Option<u64> = None,
    }
}

impl ModelOptions {
    /// Returns the name at the endpoint of the model that requests call `name`.
    pub fn upstream_of<'a>(&'a self, name: &'a str) -> &'a str {
        if self.upstream.is_empty() { name } else { &self.upstream }
    }
}
