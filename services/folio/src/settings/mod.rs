//! The settings of the binary: each component's options under its name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use folio_process::settings::{Sources, load as load_from};
use folio_types::settings::{InvalidSettings, Problems};
use serde::{Deserialize, Serialize};

use crate::arguments::{Flags, SettingsArguments, path, set};

/// All settings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The server's listener.
    pub(crate) server: ServerOptions,
    /// Where data is kept.
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
    /// Where health and figures are told, in plain text and without a token; port 0: any free one; empty: nowhere but
    /// health on the listener.
    pub(crate) health_listen: String,
    /// How long running turns may take to end when the server is told to stop.
    pub(crate) drain_timeout_seconds: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8080".to_owned(), health_listen: String::new(), drain_timeout_seconds: 20 }
    }
}

/// Where data is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StorageOptions {
    /// The folder of all data; one process at a time.
    pub(crate) data: PathBuf,
    /// Where the bytes of documents are: `s3://BUCKET[/PREFIX]`, or a folder; empty: in the data folder.
    pub(crate) blobs: String,
    /// How the bucket is reached.
    pub(crate) s3: BucketOptions,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self { data: PathBuf::from("./folio-data"), blobs: String::new(), s3: BucketOptions::default() }
    }
}

/// How a bucket is reached. Its keys come from the environment, as every S3 client reads them (`AWS_ACCESS_KEY_ID`,
/// `AWS_SECRET_ACCESS_KEY`, web identity and the like), and so does what is empty here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BucketOptions {
    /// The server, for others than Amazon's: `http://HOST:PORT` or `https://…`.
    pub(crate) endpoint: String,
    /// The region.
    pub(crate) region: String,
}

/// Defaults, then the file, then variables, then flags: those of every command, and those of this one.
pub(crate) fn load(arguments: &SettingsArguments, mut flags: Flags) -> Result<Settings> {
    set(&mut flags, "server.listen", arguments.listen.as_deref());
    set(&mut flags, "storage.data", path(arguments.data.as_ref()));
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
        let mut storage = Problems::of("storage");
        let bucket = self.storage.blobs.strip_prefix("s3://");
        let named = bucket.is_none_or(|bucket| !bucket.starts_with('/') && !bucket.is_empty());
        storage.check(named, "blobs", "names no bucket: s3://BUCKET[/PREFIX]");
        let verdicts = [
            server.verdict(),
            storage.verdict(),
            self.gateway.check(),
            self.conversation.check(),
            self.documents.check(),
            self.cleanup.check(),
        ];
        let problems: Vec<String> = verdicts.into_iter().filter_map(Result::err).flat_map(|bad| bad.problems).collect();
        if problems.is_empty() { Ok(()) } else { Err(InvalidSettings { problems }.into()) }
    }
}
