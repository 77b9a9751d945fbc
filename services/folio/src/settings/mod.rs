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
    /// Where data is kept.
    pub(crate) storage: StorageOptions,
    /// What goes between the processes of a cluster.
    pub(crate) cluster: folio_cluster::Options,
    /// Logs.
    pub(crate) log: folio_process::telemetry::LogOptions,
    /// What a collector of traces and figures is told.
    pub(crate) telemetry: folio_process::telemetry::Options,
    /// The public API.
    pub(crate) gateway: folio_gateway::Options,
    /// Conversations.
    pub(crate) conversation: folio_conversation::Options,
    /// Documents and their text.
    pub(crate) documents: folio_documents::Options,
    /// The clean-up after deletions.
    pub(crate) cleanup: folio_documents::CleanupOptions,
    /// What each organization may have at once, unless the platform's administrator set something else for it.
    pub(crate) limits: folio_types::quota::Quotas,
    /// Credit: what model calls cost, and what organizations are given.
    pub(crate) credit: folio_metering::Options,
    /// Credit that was bought.
    pub(crate) purchases: folio_gateway::purchases::Options,
    /// Model endpoints.
    pub(crate) models: folio_llm::Options,
    /// What organizations may set of models.
    pub(crate) providers: folio_providers::Options,
    /// What is stored encrypted.
    pub(crate) secrets: folio_providers::SecretsOptions,
}

/// What settings are loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve: they must say one form of a server, and nothing that has no meaning in it.
    Serve,
    /// Anything else: a command takes what it needs.
    Command,
}

/// Defaults, then the file, then variables, then flags: those of every command, and those of this one.
pub(crate) fn load(arguments: &SettingsArguments, mut flags: Flags, purpose: Purpose) -> Result<Settings> {
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let loaded = read(arguments, &mut flags, variables.collect())?;
    for warning in &loaded.warnings {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "folio: warning: {warning}");
    }
    loaded.settings.check(&flags, purpose)?;
    Ok(loaded.settings)
}

/// The same from these variables, not checked; the flags of every command are put beside the others.
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

/// The maps whose names are the operator's, each with the default of an entry.
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
    /// Checks every section and, to serve, what they say together; names every problem at once. The table of models is
    /// checked when it is resolved, since a key may come from another variable.
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
