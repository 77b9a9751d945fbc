//! The document of a chat, given by id, file (uploaded first) or name.

use std::path::Path;

use anyhow::{Result, anyhow};
use folio_proto::v1;
use folio_types::{DocumentId, counted};

use crate::client::Client;
use crate::documents::{self, NewFile};
use crate::names;
use crate::progress::Progress;
use crate::terminal::{DIM, GOOD, NOTE, Screen};

/// Finds or uploads the document, and waits until its text is ready or has failed.
pub(super) async fn find(client: &Client, screen: &mut Screen, what: &str) -> Result<v1::Document> {
    let path = Path::new(what);
    let is_file = what.parse::<DocumentId>().is_err() && path.is_file();
    let progress = Progress::visible_if(screen.is_terminal).line(&documents::name_of(path));
    if is_file {
        let kib = std::fs::metadata(path).map_or(0, |file| file.len().div_ceil(1024));
        screen.line(DIM, &format!("uploading {} ({kib} KiB)", documents::name_of(path)));
    }
    let document = match is_file {
        true => documents::add(client, path, &NewFile::default(), &progress)
            .await
            .map_err(|error| anyhow!(documents::failure(path, &error)))?,
        false => documents::find(client, what, names::choose_without_file).await?,
    };
    let document = documents::read_text(client, &document.document_id, &progress).await?;
    drop(progress);
    announce(screen, &document);
    Ok(document)
}

fn announce(screen: &mut Screen, document: &v1::Document) {
    let name = &document.name;
    match document.state() {
        v1::DocumentState::Ready => {
            let pages = counted(document.pages, "page");
            screen.line(GOOD, &format!("{name}, {pages} of text ({})", document.document_id));
        }
        _ => {
            let reason = &document.state_reason;
            screen.line(NOTE, &format!("{name} has no text: {reason} ({})", document.document_id));
        }
    }
}
