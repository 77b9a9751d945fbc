//! The command line and the composition of all roles: loads settings, starts the components of the command, and waits.

mod arguments;
mod audit;
mod chat;
mod client;
mod cluster;
mod config;
mod credit;
mod demo;
mod dev_certs;
mod documents;
mod endpoint;
mod health;
mod input;
mod local_endpoint;
mod migrate;
mod serve;
mod server;
mod settings;
mod terminal;
mod token;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use folio_process::signals::StopSignal;
use folio_storage::Stores;

use arguments::{Arguments, Command, Flags};
use settings::Purpose;

/// Wraps the stores of a server. The binary `folio` uses the identity; a test binary injects faults.
pub type StoreLayer = fn(Stores) -> Stores;

/// Runs the command line of this process, with a layer over the stores of `folio serve`.
pub fn main(layer: StoreLayer) -> ExitCode {
    // The process starts its own binary as a child for each document that it reads, because a malicious file may crash
    // the reader.
    folio_documents::worker::run_if_child();
    // The readers of documents run as the same user. Commands have tokens in memory.
    folio_process::memory::forbid_inspection();
    // Documents, tokens and input must be readable by their owner only.
    folio_process::files::restrict_umask();
    let arguments = Arguments::parse();
    match run(arguments, layer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "folio: {}", terminal::printable(&format!("{error:#}")));
            error.downcast_ref::<StopSignal>().map_or(ExitCode::FAILURE, |signal| ExitCode::from(signal.status()))
        }
    }
}

fn run(arguments: Arguments, layer: StoreLayer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let load = |flags| settings::load(&arguments.settings, flags, Purpose::Command);
    let settings = || load(Flags::new());
    runtime.block_on(async {
        match arguments.command {
            Command::Serve(serve) => {
                let settings = settings::load(&arguments.settings, serve.flags(), Purpose::Serve)?;
                Box::pin(serve::run(serve, settings, layer)).await
            }
            Command::Migrate(migrate) => {
                let why = "migrate changes the keyspace of a cluster and has no listener";
                arguments.settings.refuse_server_flags(why)?;
                let settings = load(migrate.stores.flags())?;
                migrate::run(migrate, &settings).await
            }
            Command::Cluster(command) => {
                arguments.settings.refuse_server_flags("cluster reads the stores of a cluster and has no listener")?;
                let settings = load(command.flags())?;
                cluster::run(command, &settings).await
            }
            Command::Demo(demo) => {
                arguments.settings.refuse_server_flags("demo stores nothing and chooses its own port; use serve")?;
                Box::pin(demo::run(demo, settings()?)).await
            }
            Command::Chat(chat) => Box::pin(chat::run(chat, settings()?)).await,
            Command::Credit(command) => credit::run(command, &settings()?).await,
            Command::Audit(command) => audit::run(command, &settings()?).await,
            Command::Token(command) => token::run(command, &settings()?).await,
            Command::Health(health) => health::run(health).await,
            Command::Config => config::run(&settings()?),
            Command::DevCerts(certs) => dev_certs::run(&certs),
        }
    })
}
