//! Processes of a test and their environment.

pub mod client;
pub mod cluster;
pub mod collector;
pub mod ingestion;
pub mod mcp_server;
pub mod migrations;
pub mod payment_system;
pub mod process;
pub mod settings;
pub mod sim;
pub mod tenant;
pub mod webhook_receiver;

use std::time::Duration;

/// Timeout of every wait in a test. Longer than the half minute after which a job that waits starts again, because a busy
/// machine may store the write that caused an ingestion too late for the first attempt of its job.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Awaits a future for at most [`LIMIT`].
pub async fn within<T>(subject: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .unwrap_or_else(|_| panic!("timed out after {LIMIT:?} waiting for {subject}"))
}
