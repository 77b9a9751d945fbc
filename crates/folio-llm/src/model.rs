//! The port: what a caller asks of a model and what it gets.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::message::{FinishReason, Message, ThinkingBlock, Usage};
use folio_types::models::ModelPrices;
use folio_types::{Error, OrgId};
use futures::stream::BoxStream;
use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::progress::Progress;
use crate::tools::Tools;

/// One model call.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// On whose behalf: whose models are meant, and whose turn at the endpoint it is.
    pub org: OrgId,
    /// The model, by the name in the organization's catalogue.
    pub model: String,
    /// The system message.
    pub system: String,
    /// The conversation. Assistant calls and tool results pair up (sanitized by the caller).
    pub messages: Vec<Message>,
    /// The tools on offer.
    pub tools: Tools,
    /// The format that the answer must have.
    pub response_format: Option<ResponseFormat>,
    /// Whether the model may be asked to think; the client leaves the parameter out where the rules forbid it.
    pub thinking: bool,
    /// Tokens of the answer at most; none: the provider table's limit.
    pub max_output_tokens: Option<u32>,
    /// How far it came; a fresh one for each call.
    pub progress: Progress,
}

/// `response_format` of type `json_schema`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseFormat {
    /// A name for the format (`[A-Za-z0-9_-]{1,64}`).
    pub name: String,
    /// The schema.
    pub schema: Value,
    /// Whether the provider is to hold the answer to it strictly.
    pub strict: bool,
}

/// What a streaming call gives, in order; the last item of a good stream is `Done`.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A piece of thinking.
    Thinking(String),
    /// A piece of text.
    Text(String),
    /// The whole answer.
    Done(Box<ModelReply>),
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReply {
    /// The model that answered, as the endpoint named it.
    pub model: String,
    /// The text.
    pub text: String,
    /// The thinking.
    pub thinking: Vec<ThinkingBlock>,
    /// The tool calls, in order.
    pub calls: Vec<RawToolCall>,
    /// Why it stopped; always there in a good answer.
    pub finish: Option<FinishReason>,
    /// What it used.
    pub usage: Usage,
}

/// A tool call as the model wrote it: nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawToolCall {
    /// The provider's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: should be a JSON object.
    pub arguments: String,
}

/// Stream of a call. Dropping it stops the upstream request.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// Why a model call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No such model, or disabled.
    #[error("model {0:?} is not available")]
    NotAvailable(String),
    /// What the organization may call could not be read.
    #[error("the organization's models cannot be read: {0}")]
    NotRead(String),
    /// The endpoint's breaker is open.
    #[error("the model endpoint is held back after repeated failures")]
    Unavailable {
        /// When it is tried again.
        retry_after: Duration,
    },
    /// The endpoint's breaker opened between two attempts of this call.
    #[error("{error}")]
    GivenUp {
        /// Why the last attempt failed.
        error: Box<ModelError>,
        /// When the endpoint is tried again.
        retry_after: Duration,
    },
    /// As many calls wait for the endpoint already as may.
    #[error("too many calls wait for the model endpoint")]
    Busy {
        /// When it is worth asking again.
        retry_after: Duration,
    },
    /// No connection was made, or no place among the endpoint's calls became free in time.
    #[error("the model endpoint was not reached: {0}")]
    NotReached(String),
    /// 429, after the retries.
    #[error("the model endpoint limits its rate")]
    RateLimited {
        /// What the endpoint asked to wait.
        retry_after: Option<Duration>,
    },
    /// The request was refused (4xx): sending it again does not help.
    #[error("the model endpoint refused the request ({status}): {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the endpoint said, bounded and without secrets.
        message: String,
    },
    /// 5xx, the stream broke, ended without a finish reason, or made no sense.
    #[error("the model endpoint failed: {0}")]
    Failed(String),
    /// A time-out: first token, between tokens, or whole call.
    #[error("the model endpoint did not answer in time ({0})")]
    Timeout(&'static str),
    /// The answer is larger than a bound allows.
    #[error("the model's answer is too large ({0})")]
    TooLarge(&'static str),
}

impl ModelError {
    /// Whether the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        !matches!(self, Self::NotAvailable(_) | Self::Refused { .. })
    }

    /// This error where the endpoint is held back after it.
    pub(crate) fn held_back(self, retry_after: Duration) -> Self {
        Self::GivenUp { error: Box::new(self), retry_after }
    }

    /// Whether the provider may ask for money for an attempt that ended so: it may have reached it, and was not turned away. Of a
    /// whole call its [`Progress`] says so.
    pub fn may_cost(&self) -> bool {
        if let Self::GivenUp { error, .. } = self {
            return error.may_cost();
        }
        !matches!(
            self,
            Self::NotAvailable(_)
                | Self::NotRead(_)
                | Self::Unavailable { .. }
                | Self::Busy { .. }
                | Self::NotReached(_)
                | Self::RateLimited { .. }
                | Self::Refused { .. }
        )
    }

    /// The error in a word. Its own text may hold what a provider repeats of a prompt: this may be told to logs and figures.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NotAvailable(_) => "not_available",
            Self::NotRead(_) => "not_read",
            Self::Unavailable { .. } => "held_back",
            Self::GivenUp { error, .. } => error.kind(),
            Self::Busy { .. } => "busy",
            Self::NotReached(_) => "not_reached",
            Self::RateLimited { .. } => "rate_limited",
            Self::Refused { .. } => "refused",
            Self::Failed(_) => "failed",
            Self::Timeout(_) => "timeout",
            Self::TooLarge(_) => "too_large",
        }
    }

    /// Whether another model may answer in its place: the endpoint is held back, or limits its rate.
    pub fn falls_back(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::GivenUp { .. } | Self::RateLimited { .. })
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        use folio_types::{Code, Reason};
        let message = error.to_string();
        match error {
            ModelError::NotAvailable(_) => Self::precondition(Reason::ModelNotAvailable, message),
            ModelError::NotRead(_) => Self::unavailable(Reason::StoreUnavailable, message),
            ModelError::Unavailable { retry_after } | ModelError::Busy { retry_after } => {
                Self::unavailable(Reason::ModelUnavailable, message).retry_after(retry_after)
            }
            ModelError::GivenUp { error, retry_after } => Self::from(*error).retry_after(retry_after),
            ModelError::NotReached(_) => Self::unavailable(Reason::ModelUnavailable, message),
            ModelError::RateLimited { retry_after } => Self::exhausted(Reason::ModelRateLimited, message)
                .retry_after(retry_after.unwrap_or(Duration::from_secs(5))),
            ModelError::Refused { .. } => Self::precondition(Reason::ModelRefused, message),
            ModelError::Failed(_) | ModelError::TooLarge(_) => Self::unavailable(Reason::ModelFailed, message),
            ModelError::Timeout(_) => Self::new(Code::DeadlineExceeded, Reason::ModelTimeout, message),
        }
    }
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelInfo {
    /// The name that requests give.
    pub name: String,
    /// The provider that serves it.
    pub provider: String,
    /// Tokens of prompt and answer together.
    pub context_tokens: u32,
    /// Tokens of an answer.
    pub max_output_tokens: u32,
    /// Offered in chats.
    pub chat: bool,
    /// Offered to prompts (extraction).
    pub prompts: bool,
    /// Can be asked to think.
    pub thinking: bool,
    /// Can be given tools.
    pub tools: bool,
    /// Can be held to a JSON Schema (`response_format`).
    pub json_schema: bool,
    /// Can be shown images.
    pub vision: bool,
    /// Micro-dollars (10⁻⁶ USD) per million input tokens, where known.
    pub input_price: Option<u64>,
    /// Micro-dollars per million cached input tokens, where known.
    pub cached_input_price: Option<u64>,
    /// Micro-dollars per million output tokens, where known.
    pub output_price: Option<u64>,
}

impl ModelInfo {
    /// What it costs.
    pub fn prices(&self) -> ModelPrices {
        ModelPrices { input: self.input_price, cached_input: self.cached_input_price, output: self.output_price }
    }
}

/// Models behind one port: what the agent, the extraction and the services call. Who implements it says in a request's
/// [`Progress`] how far the call came.
#[async_trait]
pub trait Models: Send + Sync {
    /// What an organization may call now.
    ///
    /// Errors: `STORE_UNAVAILABLE`.
    async fn catalogue(&self, org: &OrgId) -> Result<Arc<Catalogue>, Error>;

    /// Starts a streaming call: connects, with retries before the first token only, and gives the stream.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;

    /// A call that is answered whole.
    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError>;

    /// One embedding for each text, in order, on an organization's behalf. An empty name is the default embedding model.
    async fn embed(&self, org: &OrgId, model: &str, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError>;
}
