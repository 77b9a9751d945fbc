//! `folio cluster`: what an operator asks about a cluster.

mod report;
mod status;

use anyhow::Result;

use crate::arguments::Flags;
use crate::settings::Settings;

/// What is asked.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Nodes with their load and state, and whether the stores answer.
    Status(status::Arguments),
}

impl Command {
    /// What the flags set.
    pub(crate) fn flags(&self) -> Flags {
        match self {
            Self::Status(status) => status.flags(),
        }
    }
}

/// Asks.
pub(crate) async fn run(command: Command, settings: &Settings) -> Result<()> {
    match command {
        Command::Status(status) => status::run(&status, settings).await,
    }
}
