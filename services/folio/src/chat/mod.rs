//! `folio chat`: a chat about a document at a terminal, or through a pipe.
//!
//! An input line is a message, a command (it starts with a slash) or, while a call waits for a decision, the reply to
//! its card. [`view`], [`card`], [`change`] and [`markdown`] format the output without access to a terminal, [`follow`]
//! reconnects a broken stream, [`decide`] prompts for decisions, and [`session`] has the state of the conversation. Text
//! of models and documents reaches the terminal only through [`crate::terminal`], which replaces control characters.

mod card;
mod change;
pub(crate) mod command;
mod complete;
mod current;
pub(crate) mod decide;
mod document;
mod edit;
pub(crate) mod follow;
mod images;
mod markdown;
mod mention;
mod pager;
pub(crate) mod pending;
pub(crate) mod screen;
mod session;
mod threads;
pub(crate) mod view;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Result;

use crate::client::ServerArguments;
use crate::input::Input;
use crate::terminal::{DIM, Screen};
use complete::{Completions, Mentions};
use images::NextImages;
use screen::ChatScreen;
use session::Session;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The document of the chat: an id, a file (uploaded first), or a name.
    document: String,
    #[command(flatten)]
    server: ServerArguments,
    /// The model [default: the model of the thread, otherwise of the server].
    #[arg(long)]
    model: Option<String>,
    /// An image (PNG, JPEG or WebP) that is sent with the first message; at most four.
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Credit that the model calls of each turn may cost [default: no budget].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
}

/// Runs the chat until the user quits, the input ends or a signal arrives. If the future is dropped, the terminal is
/// restored, and a running turn continues on the server.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let signal = folio_process::signals::termination()?;
    tokio::select! {
        result = run_session(arguments) => result,
        signal = signal => Err(signal.into()),
    }
}

async fn run_session(arguments: Arguments) -> Result<()> {
    let client = arguments.server.connect().await?;
    let mut screen = ChatScreen::new(Screen::stdout());
    let document = document::find(&client, screen.plain(), &arguments.document).await?;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let mentions = Mentions::default();
    let input = if is_terminal { Input::terminal(Completions(mentions.clone()))? } else { Input::piped(false)? };
    if is_terminal {
        screen.line(DIM, "Write a message, or /help. Tab completes, Ctrl-C cancels a turn, Ctrl-D quits.");
    }
    let mut images = NextImages::default();
    for file in &arguments.images {
        let line = images.add(&client, file).await?;
        screen.line(DIM, &line);
    }
    let model = arguments.model.unwrap_or_default();
    let server = arguments.server.repeated();
    let session = Session::new(client, document, (model, arguments.budget, server), screen, input, mentions);
    session.with_images(images).run().await
}
