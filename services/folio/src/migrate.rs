//! `folio migrate`: creates or migrates the keyspace of a cluster, and creates its first organization.
//!
//! A process that serves also migrates at its start, under a lock. This command is for operators that migrate before a
//! deployment.

use std::io::Write as _;

use anyhow::{Result, ensure};
use folio_storage::AccessStore;
use folio_storage_cql::{CqlStore, Migrated};
use folio_types::System;

use crate::arguments::{SettingsArguments, StoreArguments};
use crate::server::{AccessStores, ensure_first_token_in_cluster, replace_admin_token, with_setting};
use crate::settings::Settings;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    #[command(flatten)]
    pub(crate) stores: StoreArguments,
    /// Create another admin token of the first organization, to replace a lost token.
    #[arg(long)]
    admin_token: bool,
}

/// Migrates, and prints the changes and any new token.
pub(crate) async fn run(arguments: Arguments, settings: &Settings) -> Result<()> {
    let cql = &settings.storage.cql;
    ensure!(!cql.contact_points.is_empty(), "migrate requires the servers of the keyspace: --cql HOST[:PORT],…");
    folio_process::telemetry::start(&settings.log, &folio_process::telemetry::Options::default(), "migrate")?;
    let store = CqlStore::open(cql.adapter()).await.map_err(with_setting("storage.cql"))?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", describe(&cql.keyspace, store.migrated()))?;
    let access = AccessStore::new(store.rows());
    let stores = AccessStores { access, resources: store.resources(), audit: store.audit() };
    if let Some(first) = ensure_first_token_in_cluster(&stores, &System).await? {
        first.print(&mut out)?;
    }
    if arguments.admin_token {
        replace_admin_token(&stores, &System).await?.print(&mut out)?;
    }
    Ok(())
}

fn describe(keyspace: &str, Migrated { from, to }: Migrated) -> String {
    match from {
        0 => format!("keyspace {keyspace}: created, version {to}"),
        _ if from == to => format!("keyspace {keyspace}: up to date, version {to}"),
        _ => format!("keyspace {keyspace}: migrated from version {from} to {to}"),
    }
}
