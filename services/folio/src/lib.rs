//! The command line and the composition of all roles: loads settings, starts the components of the command, and waits.

mod arguments;
mod audit;
mod chat;
mod client;
mod cluster;
mod config;
mod credit;
mod data;
mod demo;
mod dev_certs;
mod documents;
mod endpoint;
mod field_names;
mod health;
mod help_files;
mod input;
mod layout;
mod local_endpoint;
mod login;
mod mcp;
mod migrate;
mod names;
mod next_steps;
mod private_file;
mod progress;
mod secret_input;
mod serve;
mod server;
mod settings;
mod status;
mod terminal;
mod token;

use std::process::ExitCode;

use clap::Parser as _;
use folio_process::signals::StopSignal;
use folio_storage::Stores;

use arguments::{Arguments, Command, Flags, SettingsArguments};
use data::extract::FailedFiles;
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
    // The output of these commands contains a token that is printed once.
    let needs_output = matches!(arguments.command, Command::Serve(_) | Command::Migrate(_));
    match run(arguments, layer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if !needs_output && terminal::is_output_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::note(&format!("{error:#}"));
            status_of(&error)
        }
    }
}

/// Returns the exit status of a failed command.
fn status_of(error: &anyhow::Error) -> ExitCode {
    let signal = error.downcast_ref::<StopSignal>().map(|signal| signal.status());
    let files = error.downcast_ref::<FailedFiles>().map(FailedFiles::status);
    signal.or(files).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(arguments: Arguments, layer: StoreLayer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let load = |arguments: &SettingsArguments, flags: &Flags| settings::load(arguments, flags, Purpose::Command);
    runtime.block_on(async {
        match arguments.command {
            Command::Serve(serve) => {
                let settings = settings::load(&serve.settings, &serve.flags(), Purpose::Serve)?;
                Box::pin(serve::run(serve, settings, layer)).await
            }
            Command::Migrate(migrate) => {
                let settings = load(&migrate.settings, &migrate.stores.flags())?;
                migrate::run(migrate, &settings).await
            }
            Command::Cluster(command) => {
                let settings = load(command.settings(), &command.flags())?;
                cluster::run(command, &settings).await
            }
            Command::Demo(demo) => {
                let settings = load(&demo.settings, &Flags::new())?;
                Box::pin(demo::run(demo, settings)).await
            }
            Command::Chat(chat) => Box::pin(chat::run(chat)).await,
            Command::Credit(command) => Box::pin(credit::run(command)).await,
            Command::Audit(command) => audit::run(command).await,
            Command::Token(command) => Box::pin(token::run(command)).await,
            Command::Document(command) => Box::pin(data::document::run(command)).await,
            Command::Schema(command) => Box::pin(data::schema::run(command)).await,
            Command::Prompt(command) => Box::pin(data::prompt::run(command)).await,
            Command::Organization(command) => Box::pin(data::organization::run(command)).await,
            Command::Member(command) => Box::pin(data::member::run(command)).await,
            Command::Tag(command) => Box::pin(data::tag::run(command)).await,
            Command::Collection(command) => Box::pin(data::collection::run(command)).await,
            Command::Dictionary(command) => Box::pin(data::dictionary::run(command)).await,
            Command::Ask(ask) => Box::pin(data::ask::run(ask)).await,
            Command::Thread(command) => Box::pin(data::thread::run(command)).await,
            Command::Search(search) => Box::pin(data::search::run(search)).await,
            Command::Links(command) => Box::pin(data::links::run(command)).await,
            Command::Stack(command) => Box::pin(data::stack::run(command)).await,
            Command::Extract(extract) => Box::pin(data::extract::run(extract)).await,
            Command::Extraction(command) => Box::pin(data::extraction::run(command)).await,
            Command::Batch(batch) => Box::pin(data::batch::run(batch)).await,
            Command::Ingest(ingest) => Box::pin(data::ingest::run(ingest)).await,
            Command::Eval(eval) => Box::pin(data::eval::run(eval)).await,
            Command::Review(review) => Box::pin(data::review::run(review)).await,
            Command::Inbox(inbox) => Box::pin(data::inbox::run(inbox)).await,
            Command::Job(command) => Box::pin(data::job::run(command)).await,
            Command::Proposals(command) => Box::pin(data::proposal::run(command)).await,
            Command::McpServer(command) => Box::pin(data::mcp_server::run(command)).await,
            Command::Webhook(command) => Box::pin(data::webhook::run(command)).await,
            Command::Users(command) => Box::pin(data::user::run(command)).await,
            Command::Login(login) => login::run(login).await,
            Command::Logout => login::logout().await,
            Command::Status(status) => status::run(status).await,
            Command::Mcp(mcp) => Box::pin(mcp::run(mcp)).await,
            Command::Health(health) => health::run(health).await,
            Command::Config(config) => config::run(&load(&config.settings, &config.listen.flags())?),
            Command::DevCerts(certs) => dev_certs::run(&certs),
            Command::Completions(arguments) => help_files::print_completions(&arguments),
            Command::Man(arguments) => help_files::write_man_pages(&arguments),
        }
    })
}
