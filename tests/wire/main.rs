//! Tests through gRPC: each test starts its own processes `folio serve` and `llm-sim`.
//!
//! The two programs must be in the folder of the test program. `cargo xtask test` or `cargo build --workspace --bins`
//! builds them.

mod agent;
mod approve;
mod assistant;
mod cancel;
mod captures;
mod chat;
mod citations;
mod clients;
mod command_line;
mod composition;
mod crash;
mod data_commands;
mod deadline;
mod docrouter;
mod documents;
mod erasure;
mod extract;
mod faults;
mod hostile_documents;
mod images;
mod inbox;
mod ingestion_agents;
mod ingestions;
mod isolation;
mod malformed;
mod mcp;
mod migrate;
mod model_endpoint;
mod operate;
mod program;
mod progress;
mod proposals;
mod purchases;
mod real_documents;
mod retrieval;
mod sandbox;
mod screen;
mod settings;
mod stacks;
mod telemetry;
mod terminal;
mod tokens;
mod tools;
mod webhooks;

use folio_tests::harness::{LIMIT, client, process, sim, within};
