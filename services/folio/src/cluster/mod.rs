//! `folio cluster`: the state of a cluster for its operator.

mod report;
mod status;

use anyhow::Result;

use crate::arguments::{Flags, SettingsArguments};
use crate::settings::Settings;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the nodes with their load and state, and whether the stores respond.
    Status(status::Arguments),
}

impl Command {
    pub(crate) fn settings(&self) -> &SettingsArguments {
        match self {
            Self::Status(status) => &status.settings,
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        match self {
            Self::Status(status) => status.stores.flags(),
        }
    }
}

pub(crate) async fn run(command: Command, settings: &Settings) -> Result<()> {
    match command {
        Command::Status(status) => status::run(&status, settings).await,
    }
}
