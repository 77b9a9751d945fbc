//! `folio config`: the effective settings.

use anyhow::Result;

use crate::settings::Settings;

/// Prints the settings as TOML. The types of secrets mask them.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    Ok(crate::terminal::write_stdout(&toml::to_string_pretty(settings)?)?)
}
