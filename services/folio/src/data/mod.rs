//! Data commands: documents, collections, schemas, prompts, tags, extractions, jobs, webhooks, users, organizations and members, for
//! scripts and people.
//!
//! A command uses a server, or with `--data` the stores of a folder in this process. It returns a [`View`], which
//! [`DataArguments::run`] prints in the requested format. Progress and notes are printed on stderr.

pub(crate) mod ask;
pub(crate) mod batch;
pub(crate) mod collection;
pub(crate) mod dictionary;
mod dictionary_question;
pub(crate) mod document;
mod document_parts;
mod document_selection;
mod document_structure;
pub(crate) mod eval;
mod export;
pub(crate) mod extract;
pub(crate) mod extraction;
mod fields;
pub(crate) mod inbox;
pub(crate) mod ingest;
pub(crate) mod job;
pub(crate) mod links;
pub(crate) mod mcp_server;
pub(crate) mod member;
pub(crate) mod organization;
pub(crate) mod output;
pub(crate) mod prompt;
pub(crate) mod proposal;
pub(crate) mod review;
pub(crate) mod schema;
pub(crate) mod search;
mod selection;
pub(crate) mod stack;
mod stack_agent;
mod stack_changes;
mod stack_text;
pub(crate) mod tag;
pub(crate) mod thread;
pub(crate) mod user;
pub(crate) mod webhook;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use folio_client::Update;
use folio_process::signals::shutdown_on_signal;
use folio_types::{Code, Reason, counted};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Flags, set};
use crate::client::{Client, RECONNECTING, ServerArguments, Sourced, connect, explain_error};
use crate::endpoint::TlsArguments;
use crate::local_endpoint;
use crate::server::{self, Server, TOKEN_FILE};
use crate::settings::{ServerOptions, Settings};
use crate::terminal::{note, write_stdout};
use output::{Format, View};

/// Maximum number of items of a page of a list.
const PAGE_SIZE: usize = 100;

/// Maximum time for running work to end after a command with `--data`.
const DRAIN: Duration = Duration::from_secs(5);

/// The stores of a data command.
#[derive(Debug, clap::Args)]
pub(crate) struct StoresArguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Use the stores in this folder in this process, without a server.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// The model of a command that may run in this process.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArguments {
    /// The model [default: the model of the prompt, otherwise of the organization].
    #[arg(long)]
    model: Option<String>,
    /// Do not search for model endpoints on this machine.
    #[arg(long)]
    no_detect: bool,
}

/// The stores and the output of a data command.
#[derive(Debug, clap::Args)]
pub(crate) struct DataArguments {
    #[command(flatten)]
    stores: StoresArguments,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "table")]
    output: Format,
    /// Print JSON, as --output json does.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// The selection of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Only items whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Maximum number of items.
    #[arg(long, value_name = "N", default_value = "1000")]
    limit: usize,
    #[command(flatten)]
    data: DataArguments,
}

impl ListArguments {
    /// Returns the filter of the request.
    fn filter(&self) -> String {
        self.name.as_deref().map(crate::names::filter).unwrap_or_default()
    }
}

/// An item of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct ItemArguments {
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    #[command(flatten)]
    data: DataArguments,
}

impl DataArguments {
    /// Returns true if the command opens the stores of a folder.
    fn is_in_process(&self) -> bool {
        self.stores.data.is_some()
    }

    /// Returns the format of the output.
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }

    /// Runs a command with a client of the server or of the stores in the folder, and prints its result. A signal cancels
    /// the command.
    pub(crate) async fn run(&self, work: impl AsyncFnOnce(Client) -> Result<View>) -> Result<()> {
        let view = self.stores.run(work).await?;
        let written = write_stdout(&view.render(self.format()));
        if let Some(text) = view.empty_note(self.format()) {
            note(text);
        }
        match view.failure {
            Some(failure) => Err(anyhow!(failure)),
            None => Ok(written?),
        }
    }
}

impl StoresArguments {
    /// Runs a command with a client of the server or of the stores in the folder. A signal cancels the command.
    async fn run<T>(&self, work: impl AsyncFnOnce(Client) -> Result<T>) -> Result<T> {
        let shutdown = shutdown_on_signal()?;
        match &self.data {
            None => tokio::select! {
                result = async { Box::pin(work(self.server.connect().await?)).await } => result,
                () = shutdown.cancelled() => Err(stopped()),
            },
            Some(folder) => Box::pin(self.run_embedded(folder, None, work, &shutdown)).await,
        }
    }

    /// Like [`Self::run`], with a choice of the model. If there is neither a folder nor a server, the command uses stores in a
    /// temporary folder.
    async fn run_anywhere<T>(&self, model: &ModelArguments, work: impl AsyncFnOnce(Client) -> Result<T>) -> Result<T> {
        let shutdown = shutdown_on_signal()?;
        if let Some(folder) = &self.data {
            return Box::pin(self.run_embedded(folder, Some(model), work, &shutdown)).await;
        }
        if let Some(client) = self.server.connect_if_any().await? {
            return tokio::select! {
                result = Box::pin(work(client)) => result,
                () = shutdown.cancelled() => Err(stopped()),
            };
        }
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        note("no server is used, and the results are not stored: pass --data FOLDER to store them");
        Box::pin(self.run_embedded(&folder.path().join("data"), Some(model), work, &shutdown)).await
    }

    /// Runs a command with a server in this process. `model`: the choice of the model, which is printed. None: the model of the
    /// settings.
    async fn run_embedded<T>(
        &self,
        folder: &Path,
        model: Option<&ModelArguments>,
        work: impl AsyncFnOnce(Client) -> Result<T>,
        shutdown: &CancellationToken,
    ) -> Result<T> {
        let mut settings = self.embedded_settings(folder)?;
        let name = model.and_then(|model| model.model.as_deref());
        let local = match model {
            Some(model) => {
                settings.models.local.detect &= !model.no_detect;
                local_endpoint::choose(&settings.models, name).await?
            }
            None => None,
        };
        let server = Box::pin(server::start(settings, (name, local), None, |stores| stores)).await;
        let server = server.map_err(|error| match is_in_use(&error) {
            true => anyhow!("{error:#}; if a server uses it, pass --server instead of --data"),
            false => error,
        })?;
        // A misspelled folder has no data.
        if self.data.is_some() && server.first_token.is_some() {
            note(&format!("created the stores in {}", folder.display()));
        }
        if model.is_some() {
            note(&server.endpoint);
        }
        let result = tokio::select! {
            result = async { Box::pin(work(self.embedded_client(&server, folder).await?)).await } => result,
            // Do not exit here, so that the stores are closed.
            () = shutdown.cancelled() => Err(stopped()),
        };
        server.stop(DRAIN).await;
        result
    }

    /// Returns the settings of a server for this process only, on a free port of the loopback interface.
    fn embedded_settings(&self, folder: &Path) -> Result<Settings> {
        ensure!(self.server.server.is_none(), "--data needs no server: remove --server and FOLIO_SERVER");
        let mut flags = Flags::new();
        set(&mut flags, "storage.data", Some(folder.to_string_lossy().into_owned()));
        let mut settings = self.server.load_settings(&flags)?;
        ensure!(!settings.storage.is_shared(), "--data has no effect with the stores of a cluster: use --server");
        settings.server = ServerOptions { listen: "127.0.0.1:0".to_owned(), ..ServerOptions::default() };
        settings.gateway.tls = folio_gateway::TlsOptions::default();
        settings.purchases.listen = String::new();
        Ok(settings)
    }

    async fn embedded_client(&self, server: &Server, folder: &Path) -> Result<Client> {
        let file = folder.join(TOKEN_FILE);
        // A variable with the token of a server is not the token of the folder.
        let token = match (&server.first_token, std::fs::read_to_string(&file), &self.server.token) {
            (Some(first), ..) => Sourced::new(first.reveal(), "the first start"),
            (None, Ok(token), _) => Sourced::new(token, file.display().to_string()),
            (None, Err(_), Some(token)) => Sourced::new(token.clone(), "--token or FOLIO_TOKEN"),
            (None, Err(error), None) => {
                let remedy = format!("no token: pass --token, or make {} readable", file.display());
                return Err(error).context(remedy);
            }
        };
        connect(&server.address.to_string(), &TlsArguments::default(), &token).await
    }
}

/// Returns true if another process has opened the embedded stores.
fn is_in_use(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<folio_types::Error>();
    error.is_some_and(|error| error.code == Code::FailedPrecondition && error.reason == Reason::StoreUnavailable)
}

fn stopped() -> anyhow::Error {
    anyhow!("stopped by a signal")
}

/// Reads pages of a list until it ends or `limit` items were read. `page` returns the items of a page, given its size and
/// its token, and the token of the next page (empty: none).
pub(crate) async fn collect<T>(
    limit: usize,
    mut page: impl AsyncFnMut(i32, String) -> Result<(Vec<T>, String)>,
) -> Result<Vec<T>> {
    let (mut items, mut token) = (Vec::new(), String::new());
    while items.len() < limit {
        let size = (limit - items.len()).min(PAGE_SIZE);
        let (found, next) = page(i32::try_from(size)?, token).await?;
        items.extend(found);
        token = next;
        if token.is_empty() {
            return Ok(items);
        }
    }
    note(&format!("the list has more than {}: pass a larger --limit", counted(limit as u64, "item")));
    Ok(items)
}

/// Reads the items of a list as [`collect`] does, given a call with the fields of its request apart from those of pages, and the name
/// of the items in the response.
macro_rules! list_items {
    (
        $limit:expr,
        $client:ident.$service:ident().$list:ident($Request:ident { $($field:ident $(: $value:expr)?),* }) => $items:ident
    ) => {
        $crate::data::collect($limit, async |page_size, page_token| {
            let request = folio_proto::v1::$Request {
                page_size,
                page_token,
                $($field $(: $value)?,)*
                ..Default::default()
            };
            let page = $crate::client::answer($client.$service().$list(request)).await?;
            Ok((page.$items, page.next_page_token))
        })
    };
}
pub(crate) use list_items;

/// Reads a text file, or standard input for `-`. Error: it has more than `max` bytes or is not UTF-8.
fn read_text(path: &Path, max: usize) -> Result<String> {
    let is_stdin = path.as_os_str() == "-";
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let unreadable = || format!("{name} cannot be read");
    let input: Box<dyn std::io::Read> = match is_stdin {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(path).with_context(unreadable)?),
    };
    let mut bytes = Vec::new();
    input.take(max as u64 + 1).read_to_end(&mut bytes).with_context(unreadable)?;
    ensure!(bytes.len() <= max, "{name} has more than {max} bytes");
    String::from_utf8(bytes).ok().with_context(|| format!("{name} is not UTF-8"))
}

/// Parses JSON text of the server. Text that is no JSON remains a text.
pub(crate) fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::from(json))
}

/// Returns a time as text. None: null.
pub(crate) fn time(at: Option<&prost_types::Timestamp>) -> Value {
    at.map_or(Value::Null, |at| Value::from(at.to_string()))
}

/// Returns the mark of a resource that an agent created for an open proposal. Empty: no such proposal.
fn pending_review(proposal_id: &str) -> &'static str {
    if proposal_id.is_empty() { "" } else { "auto-created, pending review" }
}

/// Returns the columns of a list, with the column `review` if an item waits for a review.
fn with_review(columns: &[&'static str], rows: &[Value]) -> Vec<&'static str> {
    let is_pending =
        rows.iter().any(|row| row.get("review").and_then(Value::as_str).is_some_and(|mark| !mark.is_empty()));
    columns.iter().copied().chain(is_pending.then_some("review")).collect()
}

/// Returns the message of a stream that the client restores. None: the connection broke, which is noted.
fn watched<T>(update: folio_client::Result<Update<T>>) -> Result<Option<T>> {
    match update {
        Ok(Update::Message(message)) => Ok(Some(message)),
        Ok(Update::Reconnecting) => {
            note(RECONNECTING);
            Ok(None)
        }
        Err(error) if error.is_interruption() => bail!("the connection is lost; start the command again"),
        Err(error) => Err(explain_error(&error)),
    }
}

/// Returns the names of the fields that are set.
fn set_fields(fields: &[(&'static str, bool)]) -> Vec<&'static str> {
    fields.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect()
}

/// Returns the mask of an update of the named fields.
fn update_mask(fields: &[&str]) -> Option<prost_types::FieldMask> {
    Some(prost_types::FieldMask { paths: fields.iter().map(|name| (*name).to_owned()).collect() })
}

/// Returns the result of a deletion.
fn deleted(id: &str) -> View {
    View::one(serde_json::json!({ "deleted": id }))
}

/// Returns the answer's part that the API guarantees.
fn present<T>(part: Option<T>) -> Result<T> {
    part.context("invalid response of the server: the resource is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_are_read_until_the_list_ends_or_the_limit() {
        for (limit, expected) in [(1_000, 250), (250, 250), (120, 120), (100, 100), (0, 0)] {
            let mut sizes = Vec::new();
            let items = collect(limit, async |size, token: String| {
                sizes.push(size);
                let first: usize = token.parse().unwrap_or(0);
                let end = usize::min(250, first + usize::try_from(size)?);
                let next = if end == 250 { String::new() } else { end.to_string() };
                Ok(((first..end).collect(), next))
            });
            let items: Vec<usize> = items.await.unwrap();
            assert_eq!(items, (0..expected).collect::<Vec<_>>(), "limit {limit}");
            assert!(sizes.iter().all(|size| (1..=100).contains(size)), "{sizes:?}");
        }
    }

    #[test]
    fn an_input_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.json");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_text(&file, 5).unwrap(), "12345");
        assert!(read_text(&file, 4).unwrap_err().to_string().contains("more than 4 bytes"));
        std::fs::write(&file, b"\xff").unwrap();
        assert!(read_text(&file, 4).unwrap_err().to_string().contains("not UTF-8"));
        assert!(read_text(&folder.path().join("missing"), 4).is_err());
    }
}
