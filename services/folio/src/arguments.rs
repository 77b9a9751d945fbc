//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Talk to an LLM about a document, approve what it wants to write, end with structured data.
#[derive(Debug, Parser)]
#[command(
    name = "folio",
    version,
    about = "Talk to an LLM about a document, approve what it wants to write, end with structured data",
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    /// Where settings come from.
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where settings come from, beside defaults and variables.
#[derive(Debug, clap::Args)]
pub(crate) struct SettingsArguments {
    /// The settings file [default: folio.toml, if it is there].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the server listens [default: 127.0.0.1:8080].
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Where the server keeps its data [default: ./folio-data].
    #[arg(long, global = true, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
}

impl SettingsArguments {
    /// For a command that takes neither a place to listen nor one to keep data.
    pub(crate) fn refuse_place(&self, why: &str) -> anyhow::Result<()> {
        for (flag, given) in [("--listen", self.listen.is_some()), ("--data", self.data.is_some())] {
            anyhow::ensure!(!given, "{flag} has no meaning here: {why}");
        }
        Ok(())
    }
}

/// The stores that the processes of a cluster share.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArguments {
    /// Redis, which processes share to be fast: redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// for TLS.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// ScyllaDB or Cassandra, which keeps what is durable: some servers, with commas between.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    cql: Vec<String>,
}

impl StoreArguments {
    /// What the flags set.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        set(&mut flags, "storage.redis.url", self.redis.as_deref());
        set(&mut flags, "storage.cql.contact_points", Some(self.cql.clone()).filter(|servers| !servers.is_empty()));
        flags
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve: in one process on embedded stores, or as a gateway or node of a cluster.
    Serve(crate::serve::Arguments),
    /// Bring the keyspace of a cluster up to date.
    Migrate(crate::migrate::Arguments),
    /// Look at a cluster.
    #[command(subcommand)]
    Cluster(crate::cluster::Command),
    /// From a document to structured data, with every step shown: nothing else is needed.
    Demo(crate::demo::Arguments),
    /// Talk about a document at the terminal, with a running server.
    Chat(crate::chat::Arguments),
    /// Make, list and revoke tokens, with a running server.
    #[command(subcommand)]
    Token(crate::token::Command),
    /// Balance, usage and grants of credit, with a running server.
    #[command(subcommand)]
    Credit(crate::credit::Command),
    /// The audit log, with a running server.
    #[command(subcommand)]
    Audit(crate::audit::Command),
    /// Ask whether a process of Folio works.
    Health(crate::health::Arguments),
    /// Print the effective settings, secrets masked.
    Config,
    /// Make a certificate authority of your own, with certificates for nodes and gateways.
    DevCerts(crate::dev_certs::Arguments),
}

/// Settings that flags set, by their path.
pub(crate) type Flags = BTreeMap<String, serde_json::Value>;

/// Sets a path where a flag was given.
pub(crate) fn set(flags: &mut Flags, path: &str, given: Option<impl Into<serde_json::Value>>) {
    if let Some(value) = given {
        flags.insert(path.to_owned(), value.into());
    }
}

/// A path as a flag gives it.
pub(crate) fn path(given: Option<&PathBuf>) -> Option<String> {
    given.map(|path| path.to_string_lossy().into_owned())
}
