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

use anyhow::Result;

use crate::client::ServerArguments;
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
    /// Which server is asked.
    #[command(flatten)]
    server: ServerArguments,
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
    let client = arguments.server.connect(&settings).await?;
    let mut screen = ChatScreen::new(Screen::stdout());
    let document = document::find(&client, screen.plain(), &arguments.document).await?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if is_terminal {
        screen.line(DIM, "Write a message, or /help.");
    }
    let input = Input::new(is_terminal)?;
    Session::new(client, document, arguments.model.unwrap_or_default(), screen, input).run().await
}
