//! `folio chat`: talking about a document at a terminal, or through a pipe.
//!
//! A line is a message, a command (it begins with a slash) or, while a call waits, the answer to its card. What is shown
//! is made by [`view`] and [`card`], which know no terminal; [`follow`] joins a stream again where it broke; [`session`]
//! holds what the conversation is at. Text of models and documents reaches the terminal only through
//! [`crate::terminal`], which takes out what could steer it.

mod card;
mod command;
mod document;
mod edit;
mod follow;
mod pending;
mod screen;
mod session;
mod threads;
mod view;

use std::io::IsTerminal as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::client::Client;
use crate::endpoint::TlsArguments;
use crate::input::Input;
use crate::settings::Settings;
use crate::terminal::{DIM, Screen};
use screen::ChatScreen;
use session::Session;

/// Arguments of `folio chat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to talk about: a document's id, a file (uploaded first), or a document's name.
    document: String,
    /// The server [default: where `folio serve` listens with the same settings].
    #[arg(long, env = "FOLIO_SERVER", value_name = "HOST:PORT or URL")]
    server: Option<String>,
    /// How the server is believed.
    #[command(flatten)]
    tls: TlsArguments,
    /// The token [default: FOLIO_TOKEN, then admin.token in the data folder].
    #[arg(long, env = "FOLIO_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The model [default: the thread's, else the server's].
    #[arg(long)]
    model: Option<String>,
}

/// Talks until the person leaves, the input ends or a signal ends it. Dropped, it gives the terminal back as it was; a turn
/// goes on without it.
pub(crate) async fn run(arguments: Arguments, settings: Settings) -> Result<()> {
    let signal = folio_process::signals::ended_from_outside()?;
    tokio::select! {
        result = talk(arguments, settings) => result,
        signal = signal => Err(signal.into()),
    }
}

async fn talk(arguments: Arguments, settings: Settings) -> Result<()> {
    let server = arguments.server.unwrap_or_else(|| settings.server.listen.clone());
    let token = match arguments.token {
        Some(token) => token,
        None => token_of(&settings.storage.data.join(crate::server::TOKEN_FILE))?,
    };
    let client = Client::connect(&server, &arguments.tls, &token).await?;
    let mut screen = ChatScreen::new(Screen::stdout());
    let document = document::find(&client, screen.plain(), &arguments.document).await?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal {
        screen.line(DIM, "Write a message, or /help.");
    }
    let input = Input::new(is_terminal)?;
    Session::new(client, document, arguments.model.unwrap_or_default(), screen, input).run().await
}

fn token_of(path: &Path) -> Result<String> {
    std::fs::read_to_string(path)
        .with_context(|| format!("no token: give --token, set FOLIO_TOKEN, or have {} to read", path.display()))
}
