//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use folio_types::Timestamp;

/// Chat with an LLM about a document, approve its changes, and get structured data.
#[derive(Debug, Parser)]
#[command(
    name = "folio",
    version,
    about = "Chat with an LLM about a document, approve its changes, and get structured data",
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The settings file of a command.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SettingsArguments {
    /// The settings file [default: folio.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The address and the data of a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ListenArguments {
    /// The address on which the server listens [default: 127.0.0.1:8080].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The folder of the server's data [default: ./folio-data].
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

impl ListenArguments {
    /// Returns the settings that the flags set.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        set(&mut flags, "server.listen", self.listen.as_deref());
        set(&mut flags, "storage.data", path_value(self.data.as_ref()));
        flags
    }
}

/// The stores that the processes of a cluster share.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArguments {
    /// The Redis server that processes share for fast data: redis://[USER:PASSWORD@]HOST[:PORT][/DB], rediss:// for
    /// TLS.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The ScyllaDB or Cassandra servers of the durable store, separated by commas.
    #[arg(long, value_name = "HOST[:PORT]", value_delimiter = ',')]
    cql: Vec<String>,
}

impl StoreArguments {
    /// Returns the settings that the flags set.
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = Flags::new();
        set(&mut flags, "storage.redis.url", self.redis.as_deref());
        set(&mut flags, "storage.cql.contact_points", Some(self.cql.clone()).filter(|servers| !servers.is_empty()));
        flags
    }
}

/// Parses a time such as `2026-05-01T00:00:00Z`, or a date, whose day begins at midnight UTC.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let midnight = |_| format!("{text}T00:00:00Z").parse::<Timestamp>();
    let wrong = |_| "expected a time such as 2026-05-01T00:00:00Z, or a date such as 2026-05-01".to_owned();
    text.parse::<Timestamp>().or_else(midnight).map_err(wrong)
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the API: in one process on embedded stores, or as a gateway or node of a cluster.
    Serve(crate::serve::Arguments),
    /// Create or migrate the keyspace of a cluster.
    Migrate(crate::migrate::Arguments),
    /// Inspect a cluster.
    #[command(subcommand)]
    Cluster(crate::cluster::Command),
    /// Demonstrate the steps from a document to structured data in one process.
    Demo(crate::demo::Arguments),
    /// Extract data from files: each value with its page and its quote. The command needs no server.
    Extract(crate::data::extract::Arguments),
    /// Chat about a document at the terminal. Requires a running server.
    Chat(crate::chat::Arguments),
    /// Create, list and revoke tokens. Requires a running server.
    #[command(subcommand)]
    Token(crate::token::Command),
    /// Print balance and usage, and grant credit. Requires a running server.
    #[command(subcommand)]
    Credit(crate::credit::Command),
    /// Show the organization, and change its settings; create, list and delete organizations.
    #[command(subcommand)]
    Organization(crate::data::organization::Command),
    /// List, add, change and remove the members of the organization.
    #[command(subcommand, visible_alias = "members")]
    Member(crate::data::member::Command),
    /// Print the audit log. Requires a running server.
    #[command(subcommand)]
    Audit(crate::audit::Command),
    /// Add, list, show, tag and delete documents.
    #[command(subcommand)]
    Document(crate::data::document::Command),
    /// List, show, create and delete schemas.
    #[command(subcommand)]
    Schema(crate::data::schema::Command),
    /// List, show, create and delete prompts.
    #[command(subcommand)]
    Prompt(crate::data::prompt::Command),
    /// List, create and delete tags.
    #[command(subcommand)]
    Tag(crate::data::tag::Command),
    /// List, show, create, change and delete collections: documents with the tags and metadata of a rule.
    #[command(subcommand)]
    Collection(crate::data::collection::Command),
    /// List, print, set, delete, import and export the terms of the dictionary, answer questions about terms, and propose entries.
    #[command(subcommand)]
    Dictionary(crate::data::dictionary::Command),
    /// Search the passages of all documents, or answer a question from them.
    Search(crate::data::search::Arguments),
    /// Ask the assistant about all documents: a question, a summary or a calculation.
    Ask(crate::data::ask::Arguments),
    /// List conversations, and show one with its memory or its tool calls.
    #[command(subcommand)]
    Thread(crate::data::thread::Command),
    /// List the links of documents, and the targets that are missing.
    #[command(subcommand)]
    Links(crate::data::links::Command),
    /// List, create, fill, review, query and export stacks: tables over many documents.
    #[command(subcommand)]
    Stack(crate::data::stack::Command),
    /// Run, list, show and export extractions.
    #[command(subcommand)]
    Extraction(crate::data::extraction::Command),
    /// Run a prompt on many documents in a job, and wait for its end; see `folio job`.
    Batch(crate::data::batch::Arguments),
    /// Make documents searchable again in a job, and wait for its end, or print the states of their ingestion.
    Ingest(crate::data::ingest::Arguments),
    /// Compare the data that a prompt extracts with the verified extractions of the organization.
    Eval(crate::data::eval::Arguments),
    /// Review the values of extractions one after another, with their quotes from the document, or request a review.
    Review(crate::data::review::Arguments),
    /// List, show, accept, refine and reject what agents proposed for uploaded documents.
    #[command(subcommand, name = "proposals", visible_alias = "proposal")]
    Proposals(crate::data::proposal::Command),
    /// List or watch the items that wait for a person: approvals, reviews of extractions, proposals and questions
    /// about terms.
    Inbox(crate::data::inbox::Arguments),
    /// List, show, watch, control and retry jobs.
    #[command(subcommand, visible_alias = "jobs")]
    Job(crate::data::job::Command),
    /// List, show, create, change, delete and test webhook endpoints, and show their deliveries.
    #[command(subcommand)]
    Webhook(crate::data::webhook::Command),
    /// Manage the MCP servers whose tools agents may call (administrators).
    #[command(subcommand)]
    McpServer(crate::data::mcp_server::Command),
    /// List, show, create, change and delete users that sign in with a password, and change passwords.
    #[command(subcommand, visible_alias = "user")]
    Users(crate::data::user::Command),
    /// Store a server and a token for later commands, or sign in with an e-mail address. Reads the token or the password
    /// from the terminal or standard input.
    Login(crate::login::Arguments),
    /// Remove the stored server and token, and end a session.
    Logout,
    /// Print the server and the token of commands, and check both.
    Status(crate::status::Arguments),
    /// Connect a client of MCP that starts programs with the server: MCP on standard input and output.
    Mcp(crate::mcp::Arguments),
    /// Check the health of a process.
    Health(crate::health::Arguments),
    /// Print the effective settings with masked secrets.
    Config(crate::config::Arguments),
    /// Create a certificate authority with certificates for nodes and gateways.
    DevCerts(crate::dev_certs::Arguments),
    /// Print the completion script of a shell.
    Completions(crate::help_files::Completions),
    /// Write the man pages of all commands to a folder.
    Man(crate::help_files::Man),
}

/// Settings that flags set, by key path.
pub(crate) type Flags = BTreeMap<String, serde_json::Value>;

/// Sets the setting at a path. None: the command line does not contain the flag.
pub(crate) fn set(flags: &mut Flags, path: &str, value: Option<impl Into<serde_json::Value>>) {
    flags.extend(value.map(|value| (path.to_owned(), value.into())));
}

/// Converts a file path to the value of a setting.
pub(crate) fn path_value(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.to_string_lossy().into_owned())
}

/// Parses the arguments of a command without its name.
#[cfg(test)]
pub(crate) fn parse_arguments<A: clap::Args>(arguments: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("test").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_a_date() {
        assert_eq!(time("2026-05-01"), time("2026-05-01T00:00:00Z"));
        assert_eq!(time("2026-05-01T09:30:00+02:00").map(|at| at.to_string()), Ok("2026-05-01T07:30:00Z".to_owned()));
        for wrong in ["yesterday", "", "2026-13-01", "2026-05-01T00"] {
            assert!(time(wrong).is_err_and(|problem| problem.starts_with("expected a time")), "{wrong}");
        }
    }
}
