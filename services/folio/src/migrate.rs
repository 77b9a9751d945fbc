//! `folio migrate`: creates or migrates the keyspace of a cluster, and creates its first organization.
//!
//! A process that serves also migrates at its start, under a lock. This command is for operators that migrate before a
//! deployment.

use std::io::Write as _;

use anyhow::{Result, ensure};
use folio_storage::AccessStore;
use folio_storage_cql::{CqlStore, Migrated};
use folio_types::System;

use crate::arguments::{Flags, StoreArguments};
use crate::server::{AccessStores, another, at, ensure_shared};
use crate::settings::Settings;

/// Arguments of `folio migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The stores of the cluster.
    #[command(flatten)]
    stores: StoreArguments,
    /// Create another admin token of the first organization, in place of a lost one.
    #[arg(long)]
    admin_token: bool,
}

impl Arguments {
    pub(crate) fn flags(&self) -> Flags {
        self.stores.flags()
    }
}

/// Migrates, and prints the changes and any new token.
pub(crate) async fn run(arguments: Arguments, settings: &Settings) -> Result<()> {
    let cql = &settings.storage.cql;
    ensure!(!cql.contact_points.is_empty(), "migrate needs the servers of the keyspace: --cql HOST[:PORT],…");
    folio_process::telemetry::start(&settings.log, &folio_process::telemetry::Options::default(), "migrate")?;
    let store = CqlStore::open(cql.adapter()).await.map_err(at("storage.cql"))?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", describe(&cql.keyspace, store.migrated()))?;
    let access = AccessStore::new(store.rows());
    let stores = AccessStores { access, resources: store.resources(), audit: store.audit() };
    if let Some(first) = ensure_shared(&stores, &System).await? {
        first.print(&mut out)?;
    }
    if arguments.admin_token {
        another(&stores, &System).await?.print(&mut out)?;
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
