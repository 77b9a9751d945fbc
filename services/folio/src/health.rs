//! `folio health`: checks the health of a process, for probes that can only start a program.

use std::time::Duration;

use anyhow::{Result, anyhow};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::client::cause_of;
use crate::endpoint::TlsArguments;

/// Timeout of the check.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The health port or the public listener.
    #[arg(default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    /// The name to check: empty for readiness, `live` for liveness (health port only).
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
    #[command(flatten)]
    tls: TlsArguments,
}

/// Checks once. Any status but `SERVING` is an error.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Arguments { url, service, tls } = arguments;
    let channel = tls.endpoint(&url)?.connect_timeout(LIMIT).timeout(LIMIT).connect().await;
    // Each layer of the transport repeats the message of the layer below.
    let channel =
        channel.map_err(|error| anyhow!("cannot connect to {url}: {}", anyhow::Error::from(error).root_cause()))?;
    let response = HealthClient::new(channel).check(HealthCheckRequest { service }).await;
    let status = response.map_err(|status| anyhow!("the check of {url} failed: {}", cause_of(&status)))?;
    let status = status.into_inner().status();
    anyhow::ensure!(status == ServingStatus::Serving, "{url} is {}", status.as_str_name());
    Ok(crate::terminal::write_stdout(&format!("{}\n", status.as_str_name()))?)
}
