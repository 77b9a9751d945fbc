//! Long text in the user's pager.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use super::screen::ChatScreen;
use crate::terminal::printable;

/// Shows a text in `$PAGER` (`less` by default). Without a terminal, or if the pager cannot be started, prints the text.
pub(crate) async fn show(screen: &mut ChatScreen, text: &str, is_terminal: bool) {
    screen.end_line();
    if !is_terminal || page(text).await.is_err() {
        screen.line(anstyle::Style::new(), text);
    }
}

async fn page(text: &str) -> std::io::Result<()> {
    let pager = std::env::var_os("PAGER").filter(|pager| !pager.is_empty()).unwrap_or_else(|| "less".into());
    // The variable may contain arguments, so a shell splits it. The pager must not offer a shell or write files.
    let mut child = tokio::process::Command::new("sh")
        .arg("-c")
        .arg("exec $FOLIO_PAGER")
        .env("FOLIO_PAGER", pager)
        .env("LESSSECURE", "1")
        .stdin(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A pager that is closed before the end of the text is no failure.
        let _ = input.write_all(format!("{}\n", printable(text).trim_end()).as_bytes()).await;
    }
    match child.wait().await?.code() {
        // The shell did not find the pager.
        Some(126 | 127) => Err(std::io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}
