//! An OpenAI-compatible model endpoint without a model: its responses come from a script, or from the rules of the
//! offline model ([`offline`]). For demos, tests and load, as a library ([`LlmSim`]) and as the binary `llm-sim`.
//!
//! It serves `POST /v1/chat/completions` (streaming and not), `POST /v1/embeddings`, `POST /v1/rerank`, `GET /v1/models`,
//! and below `/sim/` control routes: recorded requests, script, faults, gates, reset.
//!
//! The crate must not depend on Folio's crates, so that a test against it exercises the real client. Like a real
//! endpoint, it refuses a history in which a tool call has no result.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")
)]

mod answer;
mod body;
mod chunks;
mod connection;
mod control;
mod embeddings;
mod faults;
mod gates;
mod images;
pub mod offline;
mod pace;
mod record;
mod request;
mod rerank;
pub mod script;
mod server;

pub use answer::{Answer, Call, Thinking, ThinkingForm, UsageCounts};
pub use faults::{Fault, FaultPlan, FaultRule, FaultTarget};
pub use pace::{Latency, Pacing};
pub use record::{Outcome, RecordedRequest};
pub use script::{Script, ScriptError};
pub use server::{LlmSim, LlmSimBuilder};
