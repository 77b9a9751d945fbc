//! Models: the port that the rest of Folio calls, the OpenAI-compatible client behind it, the provider table, and the
//! checks of schemas and of data against them.
//!
//! This crate knows nothing of turns or tools, and of tenants only that each has models of its own. `jsonschema` is named here only.
//!
//! The client speaks the protocol itself, over `reqwest`, instead of through `async-openai`. Of that crate little would
//! be left to use: its types drop `reasoning_content` and `thinking_blocks` and fail on an unknown finish reason, its
//! errors lose the status and `Retry-After`, its stream goes through a task and an unbounded channel, and its event parser
//! costs more than the rest of a turn. What is needed of the protocol is small, and as a pure parser (`stream`) it can be
//! bounded and fuzzed.
//!
//! - [`Models`], [`ModelRequest`], [`ModelEvent`], [`Progress`]: the port
//! - [`Catalogue`]: what an organization may call
//! - [`OpenAiModels`]: the client; [`Options`]: its provider table and settings
//! - [`Endpoints`]: what tables of several tenants share; [`Reach`]: where the URLs of tenants may lead
//! - [`stream`]: bytes to answer, pure; `retry`: waits between attempts, pure
//! - [`schema`]: the checks of schemas, and of data against them
//! - [`count_tokens`]: an upper estimate without a tokenizer

mod catalogue;
mod client;
mod model;
mod network;
pub mod options;
mod progress;
mod refusal;
mod request;
pub mod retry;
pub mod schema;
pub mod stream;
mod tokens;
mod tools;

pub use catalogue::Catalogue;
pub use client::{EndpointStatus, Endpoints, OpenAiModels, Owned, TENANTS};
pub use model::*;
pub use network::{Network, Reach};
pub use options::{EmbeddingOptions, ModelOptions, Options, ProviderOptions};
pub use progress::Progress;
pub use tokens::{MESSAGE_OVERHEAD_TOKENS, count_tokens};
pub use tools::{ToolDefinition, Tools};
