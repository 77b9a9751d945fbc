//! Models: the port that the other crates call, the OpenAI-compatible client behind it, the provider table, and the
//! validation of schemas and data.
//!
//! This crate must not know turns or tools. It knows organizations only as keys of catalogues and queues. Only this
//! crate uses `jsonschema`.
//!
//! `docs/decisions/0204-own-stream-parser.md` explains why streams have their own bounded and fuzzed parser, and how
//! `async-openai` sends the other requests.
//!
//! - [`Models`], [`ModelRequest`], [`ModelEvent`], [`Progress`]: the port
//! - [`RequestImages`]: the images of a request
//! - [`EmbeddingRequest`], [`RerankRequest`]: models for retrieval; [`batches()`]: the bounds of their requests
//! - [`Catalogue`]: the models that an organization may call
//! - [`OpenAiModels`]: the client; [`Options`]: its provider table and settings
//! - [`Endpoints`]: endpoints that several tenants share; [`AddressPolicy`]: address restrictions for tenants' URLs
//! - [`detect_local`]: search for endpoints on this machine; [`discover_context_sizes`]: sizes that endpoints state
//! - [`stream`]: parser from bytes to answer, pure; `retry`: retries and the waits between attempts, pure
//! - [`schema`]: validation of schemas and data
//! - [`count_tokens`]: upper estimate without a tokenizer

mod batches;
mod catalogue;
mod client;
mod error_message;
mod images;
mod model;
mod network;
pub mod options;
mod progress;
mod request;
pub mod retry;
pub mod schema;
pub mod stream;
mod tokens;
mod tools;

pub use batches::{BATCH_CHARS_MAX, BATCH_TEXTS_MAX, RERANK_DOCUMENTS_MAX, batches, rerank_tokens};
pub use catalogue::Catalogue;
pub use client::{
    AccountOwner, CONTEXT_VARIABLE, DetectedEndpoint, EndpointStatus, Endpoints, LOCAL_ENDPOINTS, ListedModel,
    LocalEndpoint, OpenAiModels, TENANTS, detect_local, discover_context_sizes,
};
pub use images::{REQUEST_IMAGES_MAX, RequestImages};
pub use model::*;
pub use network::{AddressPolicy, Network};
pub use options::{ModelKind, ModelOptions, Options, ProviderOptions};
pub use progress::Progress;
pub use tokens::{MESSAGE_OVERHEAD_TOKENS, count_tokens, image_tokens, prefix_within_tokens};
pub use tools::{ToolDefinition, Tools};
