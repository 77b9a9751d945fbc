//! The model port: requests, answers, errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::message::{FinishReason, Message, ThinkingBlock, Usage};
use folio_types::models::{ModelKind, ModelOptions, ModelPrices};
use folio_types::{Digest, Error, OrgId, Temperature};
use futures::stream::BoxStream;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::images::RequestImages;
use crate::progress::Progress;
use crate::tokens::count_tokens;
use crate::tools::Tools;

/// Characters of the digest of a prefix in the identity of vectors.
const PREFIX_DIGEST_CHARS: usize = 16;

#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Id of the call, which a provider writes to its log. ASCII; sent with every attempt as the header
    /// `X-Client-Request-Id`. Empty: not sent.
    pub call_id: String,
    /// Organization on whose behalf the call is made. Selects the catalogue and the queue at the endpoint.
    pub org: OrgId,
    /// Name of the model in the organization's catalogue.
    pub model: String,
    pub system: String,
    /// Conversation, in which every tool call has a result.
    pub messages: Vec<Message>,
    /// Bytes of the images of the messages. A note replaces an image that is missing here, and every image if the model has no
    /// vision.
    pub images: RequestImages,
    /// System message after the conversation, for content that changes between calls: a change leaves the prompt before it
    /// in the provider's cache. Empty: none.
    pub state: String,
    pub tools: Tools,
    /// Required format of the answer. None: text.
    pub response_format: Option<ResponseFormat>,
    /// Requests thinking. The client omits the parameter if the model or the history does not permit it.
    pub thinking: bool,
    /// Maximum tokens of the answer. None: the maximum of the model.
    pub max_output_tokens: Option<u32>,
    /// Sampling temperature. None: the default of the model. The client omits the parameter if the model requires
    /// another temperature: with thinking, and after the endpoint refused the parameter.
    pub temperature: Option<Temperature>,
    /// Progress of this call only.
    pub progress: Progress,
}

impl ModelRequest {
    /// Creates a request without a call id, system messages, tools, thinking or a limit of its own. The answer is text.
    pub fn new(org: OrgId, model: impl Into<String>, messages: Vec<Message>) -> Self {
        Self {
            call_id: String::new(),
            org,
            model: model.into(),
            system: String::new(),
            messages,
            images: RequestImages::default(),
            state: String::new(),
            tools: Tools::default(),
            response_format: None,
            thinking: false,
            max_output_tokens: None,
            temperature: None,
            progress: Progress::default(),
        }
    }
}

/// `response_format` of type `json_schema`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFormat {
    /// Name of the format (`[A-Za-z0-9_-]{1,64}`).
    pub name: String,
    /// JSON Schema of the answer.
    pub schema: Value,
    /// Requests that the provider enforces the schema.
    pub strict: bool,
}

/// A request of embeddings.
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    /// Id of the call, as in [`ModelRequest::call_id`].
    pub call_id: String,
    /// Organization on whose behalf the call is made. Selects the catalogue and the queue at the endpoint.
    pub org: OrgId,
    /// Name of an embedding model in the organization's catalogue.
    pub model: String,
    /// At most [`crate::BATCH_TEXTS_MAX`] texts. The caller divides more texts by [`crate::batches()`].
    pub texts: Vec<String>,
    /// Progress of this call only.
    pub progress: Progress,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// One vector of length 1 per text, in order. All have the same number of dimensions.
    pub vectors: Vec<Vec<f32>>,
    pub usage: Usage,
}

/// A request to rate texts by their relevance to a query.
#[derive(Debug, Clone)]
pub struct RerankRequest {
    /// Id of the call, as in [`ModelRequest::call_id`].
    pub call_id: String,
    /// Organization on whose behalf the call is made. Selects the catalogue and the queue at the endpoint.
    pub org: OrgId,
    /// Name of a rerank model in the organization's catalogue.
    pub model: String,
    pub query: String,
    /// At most [`crate::RERANK_DOCUMENTS_MAX`] texts.
    pub documents: Vec<String>,
    /// Maximum number of results.
    pub top_n: usize,
    /// Progress of this call only.
    pub progress: Progress,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reranking {
    /// The most relevant documents, best first; each at most once.
    pub results: Vec<RankedDocument>,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RankedDocument {
    /// Position in the request.
    pub index: usize,
    /// Finite. Its range depends on the model.
    pub relevance: f64,
}

/// An event of a streaming call. The last event of a successful stream is `Done`.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A delta of thinking.
    Thinking(String),
    /// A delta of text.
    Text(String),
    /// The complete answer.
    Done(Box<ModelReply>),
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// Name of the model, as the endpoint reported it.
    pub model: String,
    pub text: String,
    pub thinking: Vec<ThinkingBlock>,
    /// Tool calls, in order.
    pub calls: Vec<RawToolCall>,
    /// Finish reason. Always present in a successful answer.
    pub finish: Option<FinishReason>,
    pub usage: Usage,
}

/// A tool call as the model wrote it, not validated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawToolCall {
    /// Id, assigned by the provider.
    pub id: String,
    pub name: String,
    /// Arguments as text, expected to be a JSON object.
    pub arguments: String,
}

/// Event stream of a call. Dropping it cancels the upstream request.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The model does not exist or is disabled.
    #[error("model {0:?} is not available")]
    NotAvailable(String),
    #[error("the organization's models cannot be read: {0}")]
    CatalogueUnavailable(String),
    #[error("the model endpoint is suspended after repeated failures (circuit breaker open)")]
    Unavailable {
        /// Time until the breaker admits a probe.
        retry_after: Duration,
    },
    /// The circuit breaker of the endpoint opened between two attempts of this call.
    #[error("{error}")]
    RetriesStopped {
        /// Error of the last attempt.
        error: Box<ModelError>,
        /// Time until the breaker admits a probe.
        retry_after: Duration,
    },
    #[error("too many calls wait for the model endpoint")]
    Busy { retry_after: Duration },
    /// No connection was made, or no permit became free in time.
    #[error("the model endpoint is unreachable: {0}")]
    Unreachable(String),
    /// The endpoint returned 429 to every attempt.
    #[error("the model endpoint returned a rate limit (429); retry later")]
    RateLimited {
        /// Wait that the endpoint requested.
        retry_after: Option<Duration>,
    },
    /// The endpoint refused the request (4xx). A retry does not help.
    #[error("the model endpoint refused the request ({status}): {message}")]
    Refused {
        status: u16,
        /// Message of the endpoint, bounded and without secrets.
        message: String,
    },
    /// The endpoint failed: 5xx, a broken stream, no finish reason, or a malformed answer.
    #[error("the model endpoint failed: {0}")]
    Failed(String),
    /// A time limit passed: first token, between tokens, or whole call.
    #[error("the model endpoint did not answer in time ({0})")]
    Timeout(TimeLimit),
    /// The endpoint was still loading the model when the time for waiting ended.
    #[error("the model is still loading ({0}); models.retries.loading_seconds limits the wait")]
    Loading(String),
    #[error("the model's answer is too large ({0})")]
    TooLarge(&'static str),
    /// The endpoint read only a part of the prompt, because its context is too small. A retry does not help.
    #[error(
        "the model endpoint read {read} tokens of a prompt of at least {fewest} and ignored the rest: set context_tokens of \
         the model to the context of its server, or give the server a larger one (Ollama: OLLAMA_CONTEXT_LENGTH)"
    )]
    PromptCut {
        /// Tokens that the endpoint reported, including those of its cache.
        read: u64,
        /// Lower estimate of the tokens of the prompt.
        fewest: u64,
    },
}

/// A time limit of a request. Its text names the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    FirstToken,
    BetweenTokens,
    WholeCall,
    /// Limit of the request of a model list, which no setting changes.
    ModelList,
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstToken => {
                "first token; settings: models.timeouts.first_token_seconds and \
                 models.timeouts.first_token_seconds_per_thousand_tokens"
            }
            Self::BetweenTokens => "between tokens; setting: models.timeouts.between_tokens_seconds",
            Self::WholeCall => "whole call; setting: models.timeouts.call_seconds",
            Self::ModelList => "model list",
        })
    }
}

impl ModelError {
    /// Returns true if the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        !matches!(self, Self::NotAvailable(_) | Self::Refused { .. } | Self::PromptCut { .. })
    }

    /// Wraps the error of the last attempt after the breaker opened.
    pub(crate) fn retries_stopped(self, retry_after: Duration) -> Self {
        Self::RetriesStopped { error: Box::new(self), retry_after }
    }

    /// Returns true if the provider may charge for an attempt that failed with this error, because the request may have
    /// reached it and was not refused. For the whole call, use [`Progress`].
    pub fn is_possibly_charged(&self) -> bool {
        if let Self::RetriesStopped { error, .. } = self {
            return error.is_possibly_charged();
        }
        !matches!(
            self,
            Self::NotAvailable(_)
                | Self::CatalogueUnavailable(_)
                | Self::Unavailable { .. }
                | Self::Busy { .. }
                | Self::Unreachable(_)
                | Self::RateLimited { .. }
                | Self::Refused { .. }
                | Self::Loading(_)
        )
    }

    /// Returns the error as one word for logs and metrics, because the message may contain a part of the prompt.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NotAvailable(_) => "not_available",
            Self::CatalogueUnavailable(_) => "not_read",
            Self::Unavailable { .. } => "circuit_open",
            Self::RetriesStopped { error, .. } => error.kind(),
            Self::Busy { .. } => "busy",
            Self::Unreachable(_) => "not_reached",
            Self::RateLimited { .. } => "rate_limited",
            Self::Refused { .. } => "refused",
            Self::Failed(_) => "failed",
            Self::Timeout(_) => "timeout",
            Self::Loading(_) => "loading",
            Self::TooLarge(_) => "too_large",
            Self::PromptCut { .. } => "prompt_cut",
        }
    }

    /// Returns true if a fallback model may answer: the circuit breaker is open, or the endpoint limits the rate.
    pub fn allows_fallback(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::RetriesStopped { .. } | Self::RateLimited { .. })
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        use folio_types::{Code, Reason};
        let message = error.to_string();
        match error {
            ModelError::NotAvailable(_) => Self::precondition(Reason::ModelNotAvailable, message),
            ModelError::CatalogueUnavailable(_) => Self::unavailable(Reason::StoreUnavailable, message),
            ModelError::Unavailable { retry_after } | ModelError::Busy { retry_after } => {
                Self::unavailable(Reason::ModelUnavailable, message).retry_after(retry_after)
            }
            ModelError::RetriesStopped { error, retry_after } => Self::from(*error).retry_after(retry_after),
            ModelError::Unreachable(_) | ModelError::Loading(_) => Self::unavailable(Reason::ModelUnavailable, message),
            ModelError::RateLimited { retry_after } => Self::exhausted(Reason::ModelRateLimited, message)
                .retry_after(retry_after.unwrap_or(Duration::from_secs(5))),
            ModelError::Refused { .. } | ModelError::PromptCut { .. } => {
                Self::precondition(Reason::ModelRefused, message)
            }
            ModelError::Failed(_) | ModelError::TooLarge(_) => Self::unavailable(Reason::ModelFailed, message),
            ModelError::Timeout(_) => Self::new(Code::DeadlineExceeded, Reason::ModelTimeout, message),
        }
    }
}

/// An enabled model with its settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelInfo {
    /// Name that requests use.
    pub name: String,
    pub provider: String,
    pub options: ModelOptions,
}

impl ModelInfo {
    /// Returns the prices of a call. An embedding or rerank model has no output tokens, so that its input price is sufficient.
    pub fn prices(&self) -> ModelPrices {
        let ModelOptions { kind, input_price, cached_input_price, output_price, .. } = self.options;
        let output = output_price.or_else(|| (kind != ModelKind::Chat).then_some(0));
        ModelPrices { input: input_price, cached_input: cached_input_price, output }
    }

    /// Returns the name of the model at its endpoint.
    pub fn upstream(&self) -> &str {
        self.options.upstream_of(&self.name)
    }

    /// Returns the identity of the vectors of an embedding model: only vectors with equal identities can be compared. It
    /// contains the provider, the model's name at the endpoint, the stated length of vectors, and a digest of the prefix of passages
    /// if there is one.
    pub fn vector_space(&self) -> String {
        let prefix = &self.options.passage_prefix;
        let space = format!("{}/{}/{}", self.provider, self.upstream(), self.options.dimensions);
        if prefix.is_empty() {
            return space;
        }
        let digest = Digest::of(prefix.as_bytes());
        format!("{space}/{}", digest.as_str().get(..PREFIX_DIGEST_CHARS).unwrap_or_default())
    }

    /// Returns the maximum tokens of a text that follows a prefix in an input of an embedding model. A prefix counts as at most a half
    /// of the input.
    pub fn tokens_after(&self, prefix: &str) -> u32 {
        let tokens = self.options.context_tokens;
        let of_prefix = u32::try_from(count_tokens(prefix)).unwrap_or(u32::MAX);
        tokens.saturating_sub(of_prefix.min(tokens / 2))
    }
}

/// The model port, which the agent, the extraction engine and the API call. An implementation records the progress of a
/// call in [`ModelRequest::progress`].
#[async_trait]
pub trait Models: Send + Sync {
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>, Error>;

    /// Starts a streaming call. Retries occur only before the first delta of text. If a stream breaks after a delta of
    /// thinking or of a tool call, the events contain the thinking of both attempts; the reply contains the thinking and
    /// the tool calls of the second only.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;

    /// Makes a non-streaming call.
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError>;

    /// Returns the embeddings of texts with one request to the endpoint, apart from retries.
    async fn embed(&self, request: EmbeddingRequest) -> Result<Embeddings, ModelError> {
        Err(ModelError::NotAvailable(request.model))
    }

    /// Rates texts with one request to the endpoint, apart from retries.
    async fn rerank(&self, request: RerankRequest) -> Result<Reranking, ModelError> {
        Err(ModelError::NotAvailable(request.model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_prefixes(query_prefix: &str, passage_prefix: &str) -> ModelInfo {
        ModelInfo {
            name: "e5".to_owned(),
            provider: "own".to_owned(),
            options: ModelOptions {
                kind: ModelKind::Embedding,
                context_tokens: 64,
                query_prefix: query_prefix.to_owned(),
                passage_prefix: passage_prefix.to_owned(),
                ..ModelOptions::default()
            },
        }
    }

    #[test]
    fn vectors_with_another_prefix_of_passages_have_another_identity() {
        let space = |query, passage| with_prefixes(query, passage).vector_space();
        assert_eq!(space("", ""), "own/e5/0");
        assert_eq!(space("query: ", ""), space("", ""), "stored vectors do not depend on queries");
        let spaces = [space("", ""), space("", "passage: "), space("", "passage:")];
        assert!(spaces[1].starts_with("own/e5/0/") && spaces[1] != spaces[0] && spaces[1] != spaces[2], "{spaces:?}");
        assert_eq!(space("query: ", "passage: "), spaces[1]);
    }

    #[test]
    fn a_prefix_reduces_the_text_of_an_input_to_a_half_at_most() {
        let model = with_prefixes("", "");
        assert_eq!(model.tokens_after(""), 64);
        let prefix = "passage: ";
        assert_eq!(u64::from(model.tokens_after(prefix)), 64 - count_tokens(prefix));
        assert_eq!(model.tokens_after(&"x".repeat(500)), 32);
    }
}
