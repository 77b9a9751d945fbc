//! The settings of the binary: each component's options in its own section.

mod consistency;
mod index;
mod limits;
mod server;
mod storage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Result;
use folio_process::settings::{LoadedSettings, Sources, load as load_from};
use folio_types::settings::InvalidSettings;
use serde::{Deserialize, Serialize};

use crate::arguments::{Flags, SettingsArguments};

pub(crate) use index::qdrant;
pub(crate) use limits::LimitOptions;
pub(crate) use server::{Role, ServerOptions};
pub(crate) use storage::{BucketOptions, StorageOptions};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) server: ServerOptions,
    pub(crate) storage: StorageOptions,
    /// The RPCs between the processes of a cluster.
    pub(crate) cluster: folio_cluster::Options,
    pub(crate) log: folio_process::telemetry::LogOptions,
    /// The export of traces and metrics.
    pub(crate) telemetry: folio_process::telemetry::Options,
    /// The public API.
    pub(crate) gateway: folio_gateway::Options,
    pub(crate) conversation: folio_conversation::Options,
    /// Bounds of extractions.
    pub(crate) extraction: folio_tools::extraction::Options,
    /// Bounds of runs that make proposals.
    pub(crate) auto_create: folio_tools::auto_create::Options,
    /// The limits of jobs.
    pub(crate) jobs: folio_history::job::JobLimits,
    /// Uploads and ingestion.
    pub(crate) documents: folio_documents::Options,
    /// The index of passages, and the sizes of passages.
    pub(crate) index: folio_knowledge::Options,
    /// The clean-up after deletions.
    pub(crate) cleanup: folio_documents::CleanupOptions,
    /// The default quotas of organizations.
    pub(crate) limits: LimitOptions,
    pub(crate) credit: folio_metering::Options,
    pub(crate) purchases: folio_gateway::purchases::Options,
    pub(crate) models: folio_llm::Options,
    /// Bounds of the model settings of organizations.
    pub(crate) providers: folio_providers::Options,
    /// The master keys of encrypted values.
    pub(crate) secrets: folio_providers::SecretsOptions,
    /// Users that sign in with a password.
    pub(crate) users: folio_accounts::Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The server: settings must be consistent, and flags without an effect are refused.
    Serve,
    /// Any other command, which uses only a part of the settings.
    Command,
}

/// Loads the defaults, then the file, then variables, then the flags of the command.
pub(crate) fn load(arguments: &SettingsArguments, flags: &Flags, purpose: Purpose) -> Result<Settings> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let loaded = read(arguments, flags, variables.collect())?;
    for warning in &loaded.warnings {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "folio: warning: {warning}");
    }
    loaded.settings.check(flags, purpose)?;
    Ok(loaded.settings)
}

/// Loads the settings without checking them. A limit that is not set has the default of the stores.
fn read(
    arguments: &SettingsArguments,
    flags: &Flags,
    variables: BTreeMap<String, String>,
) -> Result<LoadedSettings<Settings>> {
    let sources = Sources {
        file: Some(arguments.config.clone().unwrap_or_else(|| "folio.toml".into())),
        file_required: arguments.config.is_some(),
        variables,
        flags: flags.clone(),
        maps: free_maps()?,
    };
    let mut loaded: LoadedSettings<Settings> = load_from(&sources)?;
    loaded.settings.limits = loaded.settings.limits.resolved(loaded.settings.storage.is_shared());
    Ok(loaded)
}

/// Returns the maps whose keys the operator chooses, each with the default of an entry.
fn free_maps() -> Result<BTreeMap<String, serde_json::Value>> {
    let model = serde_json::to_value(folio_llm::ModelOptions::default())?;
    let provider = serde_json::to_value(folio_llm::ProviderOptions::default())?;
    let issuer = serde_json::to_value(folio_gateway::IssuerOptions::default())?;
    Ok(BTreeMap::from([
        ("gateway.jwt".to_owned(), issuer),
        // The value is an organization id.
        ("gateway.jwt.*.organizations".to_owned(), "".into()),
        // The value is the path of a file.
        ("index.tokenizers".to_owned(), "".into()),
        ("models.providers".to_owned(), provider),
        ("models.weights".to_owned(), 1.into()),
        ("models.providers.*.models".to_owned(), model),
    ]))
}

impl Settings {
    /// Returns every problem of the sections and, for [`Purpose::Serve`], of their consistency. The table of models is
    /// checked when it is resolved, because a key may be in another variable.
    fn check(&self, flags: &Flags, purpose: Purpose) -> Result<()> {
        let results = [
            self.server.check(),
            self.storage.check(),
            self.cluster.check(),
            self.gateway.check(),
            self.conversation.check(),
            self.extraction.check(),
            self.auto_create.check(),
            self.jobs.check(),
            self.documents.check(),
            self.index.check(),
            index::check(&self.index),
            self.cleanup.check(),
            self.limits.check(),
            self.credit.check(),
            self.purchases.check(),
            self.telemetry.check(),
            self.providers.check(),
            self.users.check(),
        ];
        let errors = results.into_iter().filter_map(Result::err);
        let mut problems: Vec<String> = errors.flat_map(|error| error.problems).collect();
        if purpose == Purpose::Serve {
            problems.extend(consistency::problems(self, flags));
        }
        if problems.is_empty() { Ok(()) } else { Err(InvalidSettings { problems }.into()) }
    }
}
