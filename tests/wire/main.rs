//! Through real gRPC: `folio serve` as one process, `llm-sim` as another, each test with its own pair.
//!
//! The two binaries must be in the folder of this one: `cargo xtask test` builds them, or `cargo build --workspace
//! --bins`.

mod approve;
mod cancel;
mod chat;
mod command_line;
mod composition;
mod crash;
mod documents;
mod erasure;
mod events;
mod faults;
mod malformed;
mod operate;
mod phases;
mod program;
mod purchases;
mod rejoin;
mod sandbox;
mod settings;
mod telemetry;
mod tenants;
mod terminal;
mod tokens;
mod tools;

use folio_tests::harness::{LIMIT, client, process, sim, within};
