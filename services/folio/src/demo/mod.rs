//! `folio demo`: shows every step from a document to structured data in one process.

pub(crate) mod conversation;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use folio_proto::v1;
use folio_proto::v1::decision::Decision;

use crate::arguments::SettingsArguments;
use crate::chat::screen::ChatScreen;
use crate::chat::view::Waiting;
use crate::client::{Sourced, connect, explain_error};
use crate::documents::{self, NewFile};
use crate::endpoint::TlsArguments;
use crate::local_endpoint;
use crate::server::{self, Server};
use crate::settings::{ServerOptions, Settings, StorageOptions};
use crate::terminal::{BOLD, GOOD, NOTE, Screen, write_stdout};
use conversation::Decide;

const SAMPLE: &[u8] = include_bytes!("../../../../samples/invoice.pdf");
const SAMPLE_NAME: &str = "invoice.pdf";

const MESSAGE: &str = "create a schema and a prompt for documents like this and extract";

/// Maximum time for running work to end after the demo.
const DRAIN: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: SettingsArguments,
    /// The document: PDF, PNG, JPEG, TIFF, an office document, mail, HTML, Markdown, CSV or text [default: the sample
    /// invoice].
    file: Option<PathBuf>,
    /// Ask for each approval instead of approving every call.
    #[arg(long)]
    ask: bool,
    /// Print one JSON object at the end on stdout, and everything else on stderr.
    #[arg(long)]
    json: bool,
    /// The default model. Requires OPENAI_API_KEY, a provider in the settings, or an endpoint on this machine that lists
    /// the model.
    #[arg(long)]
    model: Option<String>,
    /// Do not search for model endpoints on this machine.
    #[arg(long)]
    no_detect: bool,
}

pub(crate) async fn run(arguments: Arguments, mut settings: Settings) -> Result<()> {
    let mut screen = ChatScreen::new(if arguments.json { Screen::stderr() } else { Screen::stdout() });
    let file = read(&arguments).await?;
    settings.models.local.detect &= !arguments.no_detect;
    let local = local_endpoint::choose(&settings.models, arguments.model.as_deref()).await?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    settings.storage = StorageOptions { data: folder.path().join("data"), ..StorageOptions::default() };
    settings.server = ServerOptions { listen: "127.0.0.1:0".to_owned(), ..ServerOptions::default() };

    let start = server::start(settings, (arguments.model.as_deref(), local), None, |stores| stores);
    let server = Box::pin(start).await?;
    screen.line(NOTE, &server.endpoint);
    let shutdown = folio_process::signals::shutdown_on_signal()?;
    let result = tokio::select! {
        result = run_demo(&server, &mut screen, &file, arguments.ask) => result,
        // Do not exit here, so that the temporary folder is removed.
        () = shutdown.cancelled() => Err(anyhow!("stopped by a signal")),
    };
    server.stop(DRAIN).await;
    let report = result?;
    if arguments.json {
        write_stdout(&format!("{}\n", serde_json::to_string(&report)?))?;
    }
    Ok(())
}

async fn read(arguments: &Arguments) -> Result<NewFile> {
    match &arguments.file {
        None => Ok(NewFile { name: SAMPLE_NAME.to_owned(), bytes: SAMPLE.to_vec(), ..NewFile::default() }),
        Some(path) => NewFile::read(path).await,
    }
}

async fn run_demo(server: &Server, screen: &mut ChatScreen, file: &NewFile, ask: bool) -> Result<report::Report> {
    let token = server.first_token.as_ref().context("the admin token was not created")?;
    let token = Sourced::new(token.reveal(), "the demo");
    let client = connect(&server.address.to_string(), &TlsArguments::default(), &token).await?;
    let name = &file.name;
    screen.line(BOLD, &format!("Uploading {name} ({} KiB)", file.bytes.len().div_ceil(1024)));
    let document = documents::upload(&client, file, "", |_| {})
        .await
        .map_err(|error| anyhow!(documents::failure(Path::new(name), &explain_error(&error))))?;
    screen.wait(Waiting::Text);
    let document = documents::wait_until_settled(&client, &document.document_id).await?;
    if document.pages == 0 {
        bail!("{name} has no text to work on: {}", document.state_reason);
    }
    screen.line(GOOD, &format!("{} of text", folio_types::counted(document.pages, "page")));
    screen.line(BOLD, "");
    screen.line(BOLD, &format!("You: {MESSAGE}"));
    let request = v1::ChatRequest {
        document_ids: vec![document.document_id.clone()],
        text: MESSAGE.to_owned(),
        ..v1::ChatRequest::default()
    };
    let approve_all: &Decide<'_> = &|_| Decision::Approved(v1::Approved {});
    let finished = conversation::run(&client, screen, request, (!ask).then_some(approve_all)).await?;
    report::collect(&client, screen, document, finished).await
}
