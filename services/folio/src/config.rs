//! `folio config`: the effective settings.

use anyhow::Result;

use crate::arguments::{ListenArguments, SettingsArguments};
use crate::settings::Settings;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    #[command(flatten)]
    pub(crate) listen: ListenArguments,
}

/// Prints the settings as TOML. The types of secrets mask them.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    Ok(crate::terminal::write_stdout(&toml::to_string_pretty(settings)?)?)
}
