//! An OpenAI-compatible model endpoint that is no model: what it answers comes from a script, or from the rules of the
//! offline model ([`offline`]). For demos, tests and load, as a library ([`LlmSim`]) and as the binary `llm-sim`.
//!
//! It serves `POST /v1/chat/completions` (streaming and not), `POST /v1/embeddings`, `GET /v1/models`, and under
//! `/sim/` its own controls: the record of what it was sent, the script, faults, gates, reset.
//!
//! It knows nothing of Folio: what it sees is what any endpoint sees, the requests. So a test that runs against it runs
//! the real client. Like a real endpoint it refuses a history in which a tool call has no result.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")
)]

mod answer;
mod body;
mod brain;
mod chunks;
mod connection;
mod control;
mod embeddings;
mod faults;
mod gates;
pub mod offline;
mod pace;
mod record;
mod request;
pub mod script;
mod server;

pub use answer::{Answer, Call, Thinking, ThinkingForm, UsageCounts};
pub use brain::{Brain, Decision, Refusal};
pub use faults::{Fault, FaultPlan, FaultRule};
pub use pace::{Latency, Pacing};
pub use record::{Outcome, Recorded};
pub use request::{ChatMessage, ChatRequest, RequestedCall, RequestedFormat, RequestedTool, Role};
pub use script::{Script, ScriptError};
pub use server::{LlmSim, LlmSimBuilder};
