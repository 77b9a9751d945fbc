//! The settings of the binary: each component's options under its name.

mod form;
mod server;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use folio_process::settings::{Loaded, Sources, load as load_from};
use folio_types::settings::InvalidSettings;
use serde::{Deserialize, Serialize};

use crate::arguments::{Flags, SettingsArguments, path, set};

pub(crate) use server::{Role, ServerOptions};
pub(crate) use storage::{BucketOptions, StorageOptions};

/// All settings.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// The server's listener.
    pub(crate) server: ServerOptions,
    /// The storage.
    pub(crate) storage: StorageOptions,
    /// The connections between the processes of a cluster.
    pub(crate) cluster: folio_cluster::Options,
    /// Logs.
    pub(crate) log: folio_process::telemetry::LogOptions,
    /// The export of traces and metrics.
    pub(crate) telemetry: folio_process::telemetry::Options,
    /// The public API.
    pub(crate) gateway: folio_gateway::Options,
    /// Conversations.
    pub(crate) conversation: folio_conversation::Options,
    /// Documents and their text.
    pub(crate) documents: folio_documents::Options,
    /// The clean-up after deletions.
    pub(crate) cleanup: folio_documents::CleanupOptions,
    /// The default limits of organizations.
    pub(crate) limits: folio_types::quota::Quotas,
    /// Credit: the price of model calls, and the monthly allowance.
    pub(crate) credit: folio_metering::Options,
    /// Purchases of credit.
    pub(crate) purchases: folio_gateway::purchases::Options,
    /// Model endpoints.
    pub(crate) models: folio_llm::Options,
    /// Bounds of the model settings of organizations.
    pub(crate) providers: folio_providers::Options,
    /// The keys of encrypted values.
    pub(crate) secrets: folio_providers::SecretsOptions,
}

/// The purpose for which settings are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve: the settings must be consistent and have no flag without a meaning.
    Serve,
    /// Any other command, which uses only a part of the settings.
    Command,
}

/// Loads the defaults, then the file, then variables, then flags: those of every command, and those of this one.
pub(crate) fn load(arguments: &SettingsArguments, mut flags: Flags, purpose: Purpose) -> Result<Settings> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let loaded = read(arguments, &mut flags, variables.collect())?;
    for warning in &loaded.warnings {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "folio: warning: {warning}");
    }
    loaded.settings.check(&flags, purpose)?;
    Ok(loaded.settings)
}

/// Loads from these variables without a check. The flags of every command are added to `flags`.
fn read(
    arguments: &SettingsArguments,
    flags: &mut Flags,
    variables: BTreeMap<String, String>,
) -> Result<Loaded<Settings>> {
    set(flags, "server.listen", arguments.listen.as_deref());
    set(flags, "storage.data", path(arguments.data.as_ref()));
    let sources = Sources {
        file: Some(arguments.config.clone().unwrap_or_else(|| "folio.toml".into())),
        file_required: arguments.config.is_some(),
        variables,
        flags: flags.clone(),
        maps: free_maps()?,
    };
    Ok(load_from(&sources)?)
}

/// Returns the maps whose keys the operator chooses, each with the default of an entry.
fn free_maps() -> Result<BTreeMap<String, serde_json::Value>> {
    let model = serde_json::to_value(folio_llm::ModelOptions::default())?;
    let embedding_model = serde_json::to_value(folio_llm::EmbeddingOptions::default())?;
    let provider = serde_json::to_value(folio_llm::ProviderOptions::default())?;
    let issuer = serde_json::to_value(folio_gateway::IssuerOptions::default())?;
    Ok(BTreeMap::from([
        ("gateway.jwt".to_owned(), issuer),
        // An organization's id.
        ("gateway.jwt.*.organizations".to_owned(), "".into()),
        ("models.providers".to_owned(), provider),
        ("models.weights".to_owned(), 1.into()),
        ("models.providers.*.models".to_owned(), model),
        ("models.providers.*.embedding_models".to_owned(), embedding_model),
    ]))
}

impl Settings {
    /// Checks every section and, to serve, their consistency. Returns all problems at once. The table of models is
    /// checked when it is resolved, because a key may come from another variable.
    fn check(&self, flags: &Flags, purpose: Purpose) -> Result<()> {
        let verdicts = [
            self.server.check(),
            self.storage.check(),
            self.cluster.check(),
            self.gateway.check(),
            self.conversation.check(),
            self.documents.check(),
            self.cleanup.check(),
            self.limits.check(),
            self.credit.check(),
            self.purchases.check(),
            self.telemetry.check(),
            self.providers.check(),
        ];
        let bad = verdicts.into_iter().filter_map(Result::err);
        let mut problems: Vec<String> = bad.flat_map(|bad| bad.problems).collect();
        if purpose == Purpose::Serve {
            problems.extend(form::problems(self, flags));
        }
        if problems.is_empty() { Ok(()) } else { Err(InvalidSettings { problems }.into()) }
    }
}
