//! Through real gRPC: `folio serve` as one process, `llm-sim` as another, each test with its own pair.
//!
//! The two binaries must be built beside this one: `cargo xtask test` does it, or `cargo build --workspace --bins`.

mod approve;
mod bounds;
mod cancel;
mod chaos;
mod chat;
mod client;
mod command_line;
mod composition;
mod crash;
mod documents;
mod events;
mod faults;
mod malformed;
mod operate;
mod people;
mod phases;
mod process;
mod queue;
mod refusals;
mod rejoin;
mod roles;
mod sandbox;
mod services;
mod settings;
mod sim;
mod tenants;
mod terminal;
mod threads;
mod tools;

use std::time::Duration;

/// How long anything may take before a test gives up.
const LIMIT: Duration = Duration::from_secs(30);

/// Waits for a future, at most [`LIMIT`].
async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("waited {LIMIT:?} in vain for: {what}"))
}
