//! `folio serve`: the server, until it is told to stop.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;

use crate::server;
use crate::settings::Settings;

/// Arguments of `folio serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The model of chats that name none.
    #[arg(long)]
    model: Option<String>,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: Arguments, settings: Settings) -> Result<()> {
    folio_process::telemetry::start(&settings.log)?;
    folio_process::signals::survive_file_size_limit()?;
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    let drain = Duration::from_secs(settings.server.drain_timeout_seconds);
    let mut server = server::start(settings, arguments.model.as_deref()).await?;
    announce(&server)?;
    tokio::select! {
        () = shutdown.cancelled() => {
            server.stop(drain).await;
            Ok(())
        }
        error = server.failed() => Err(error),
    }
}

/// What a person, or whoever started the process, needs to know. The token is shown this once.
fn announce(server: &server::Server) -> Result<()> {
    let mut out = std::io::stdout();
    if let Some(token) = server.first_token() {
        writeln!(out, "admin token, shown once and kept in {}:", server.token_file().display())?;
        writeln!(out, "{}", token.reveal())?;
    }
    writeln!(out, "{}", server.endpoint())?;
    writeln!(out, "listening on {}", server.address())?;
    out.flush()?;
    Ok(())
}
