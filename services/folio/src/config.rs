//! `folio config`: the effective settings.

use anyhow::Result;

use crate::settings::Settings;

/// Prints the settings as TOML; secrets are masked by their type.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    crate::terminal::put(&toml::to_string_pretty(settings)?)?;
    Ok(())
}
