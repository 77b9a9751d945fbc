//! Logs: to stderr, as text or JSON. Never a secret, never document text.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

/// How a process logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Which records, as directives of `tracing-subscriber` (`info`, `folio_node=debug,info`, …).
    pub filter: String,
    /// How a record is written.
    pub format: Format,
}

impl Default for Options {
    fn default() -> Self {
        Self { filter: "info,fjall=warn,lsm_tree=warn".to_owned(), format: Format::Text }
    }
}

/// How a log record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// One line for a person.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging. Called once, before anything is logged.
pub fn start(options: &Options) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&options.filter)
        .map_err(|error| anyhow::anyhow!("log.filter {:?} is not a filter: {error}", options.filter))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match options.format {
        Format::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        Format::Json => builder.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging cannot start: {error}"))
}
