//! The settings of the binary: each component's options under its name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use folio_process::settings::{Sources, load as load_from};
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

use crate::arguments::SettingsArguments;

/// All settings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The server's listener.
    pub(crate) server: ServerOptions,
    /// The embedded stores.
    pub(crate) storage: StorageOptions,
    /// Logs.
    pub(crate) log: folio_process::telemetry::Options,
    /// The public API.
    pub(crate) gateway: folio_gateway::Options,
    /// Conversations.
    pub(crate) conversation: folio_conversation::Options,
    /// Documents and their text.
    pub(crate) documents: folio_documents::Options,
    /// The clean-up after deletions.
    pub(crate) cleanup: folio_documents::CleanupOptions,
    /// Model endpoints.
    pub(crate) models: folio_llm::Options,
}

/// The server's listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerOptions {
    /// Where it listens; port 0: any free one.
    pub(crate) listen: String,
    /// How long running turns may take to end when the server is told to stop.
    pub(crate) drain_timeout_seconds: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8080".to_owned(), drain_timeout_seconds: 20 }
    }
}

/// The embedded stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StorageOptions {
    /// The folder of all data; one process at a time.
    pub(crate) data: PathBuf,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self { data: PathBuf::from("./folio-data") }
    }
}

/// Defaults, then the file, then variables, then flags.
pub(crate) fn load(arguments: &SettingsArguments) -> Result<Settings> {
    let mut flags = BTreeMap::new();
    if let Some(listen) = &arguments.listen {
        flags.insert("server.listen".to_owned(), listen.as_str().into());
    }
    if let Some(data) = &arguments.data {
        flags.insert("storage.data".to_owned(), data.to_string_lossy().into_owned().into());
    }
    let sources = Sources {
        file: Some(arguments.config.clone().unwrap_or_else(|| "folio.toml".into())),
        file_required: arguments.config.is_some(),
        variables: std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect(),
        flags,
        maps: free_maps()?,
    };
    let loaded = load_from::<Settings>(&sources)?;
    for warning in &loaded.warnings {
        eprintln!("folio: warning: {warning}");
    }
    loaded.settings.check()?;
    Ok(loaded.settings)
}

/// The maps whose names are the operator's, each with the default of an entry.
fn free_maps() -> Result<BTreeMap<String, serde_json::Value>> {
    let model = serde_json::to_value(folio_llm::ModelOptions::default())?;
    let embedding_model = serde_json::to_value(folio_llm::EmbeddingOptions::default())?;
    let provider = serde_json::to_value(folio_llm::ProviderOptions::default())?;
    Ok(BTreeMap::from([
        ("models.providers".to_owned(), provider),
        ("models.providers.*.models".to_owned(), model),
        ("models.providers.*.embedding_models".to_owned(), embedding_model),
    ]))
}

impl Settings {
    /// Checks every section, and names every problem at once. The table of models is checked when it is resolved, since
    /// a key may come from another variable.
    fn check(&self) -> Result<()> {
        let mut server = Problems::of("server");
        server.number("drain_timeout_seconds", self.server.drain_timeout_seconds, 0, 86_400);
        let verdicts = [
            server.verdict(),
            self.gateway.check(),
            self.conversation.check(),
            self.documents.check(),
            self.cleanup.check(),
        ];
        let problems: Vec<String> = verdicts.into_iter().filter_map(Result::err).flat_map(|bad| bad.problems).collect();
        if problems.is_empty() { Ok(()) } else { Err(InvalidSettings { problems }.into()) }
    }
}
