//! The binary: an OpenAI-compatible endpoint that plays a script or runs the offline model.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use llm_sim::{LlmSim, Script};

/// Run an OpenAI-compatible model endpoint that needs no model.
#[derive(Debug, Parser)]
#[command(name = "llm-sim", version)]
struct Arguments {
    /// Listen on this address; port 0 selects a free port. The address is printed on stdout.
    #[arg(long, default_value = "127.0.0.1:8089")]
    listen: SocketAddr,
    /// Answer with this script (YAML or JSON). Default: one fixed answer.
    #[arg(long, conflicts_with = "offline_model")]
    script: Option<PathBuf>,
    /// Answer with the offline model (rules, no LLM) instead of a script.
    #[arg(long)]
    offline_model: bool,
    /// Record this number of requests; 0 disables the record.
    #[arg(long, default_value_t = 1_000)]
    record: usize,
    /// Length of vectors whose request states none.
    #[arg(long, default_value_t = 256)]
    dimensions: usize,
    /// Record a hash of each body instead of the body.
    #[arg(long)]
    hash_bodies: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments = Arguments::parse();
    let mut builder =
        LlmSim::builder().listen(arguments.listen).record(arguments.record).dimensions(arguments.dimensions);
    if arguments.hash_bodies {
        builder = builder.hash_bodies();
    }
    if arguments.offline_model {
        builder = builder.offline_model();
    } else if let Some(path) = &arguments.script {
        let yaml = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        builder = builder.script(Script::parse(&yaml).with_context(|| path.display().to_string())?);
    }
    let sim = builder.start().await.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}", sim.address())?;
    stdout.flush()?;
    stopped().await?;
    sim.shutdown().await;
    Ok(())
}

/// Waits for SIGINT or SIGTERM.
async fn stopped() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}
