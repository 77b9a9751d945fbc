//! The document of a chat, given by id, file (uploaded first) or name.

use std::path::Path;

use anyhow::Result;
use folio_proto::v1;
use folio_types::DocumentId;

use crate::client::{Client, explain};
use crate::documents::{self, NewFile};
use crate::names;
use crate::terminal::{DIM, GOOD, NOTE, Screen};

/// Finds or uploads the document, and waits until its text is ready or has failed.
pub(super) async fn find(client: &Client, screen: &mut Screen, what: &str) -> Result<v1::Document> {
    let is_file = what.parse::<DocumentId>().is_err() && Path::new(what).is_file();
    let document = match is_file {
        true => upload(client, screen, Path::new(what)).await?,
        false => documents::find(client, what, names::choose).await?,
    };
    let bar = documents::text_spinner(screen.is_terminal);
    let document = documents::wait_until_settled(client, &document.document_id, |_| bar.tick()).await?;
    bar.finish_and_clear();
    announce(screen, &document);
    Ok(document)
}

/// Uploads a file. The same file is uploaded once.
async fn upload(client: &Client, screen: &mut Screen, path: &Path) -> Result<v1::Document> {
    let file = NewFile::read(path).await?;
    screen.line(DIM, &format!("uploading {} ({} KiB)", file.name, file.bytes.len().div_ceil(1024)));
    let bar = documents::upload_bar(file.bytes.len(), screen.is_terminal);
    let moving = bar.clone();
    let document = documents::upload_once(client, &file, move |sent| moving.set_position(sent as u64)).await;
    bar.finish_and_clear();
    document.map_err(|status| explain(&status))
}

fn announce(screen: &mut Screen, document: &v1::Document) {
    let name = &document.name;
    match document.state() {
        v1::DocumentState::Ready => {
            let pages = if document.pages == 1 { "1 page".to_owned() } else { format!("{} pages", document.pages) };
            screen.line(GOOD, &format!("{name}, {pages} of text ({})", document.document_id));
        }
        _ => {
            let reason = &document.state_reason;
            screen.line(NOTE, &format!("{name} has no text: {reason} ({})", document.document_id));
        }
    }
}
