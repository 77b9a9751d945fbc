//! The document of a chat, given by id, file (uploaded first) or name.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use folio_proto::v1;
use folio_types::{Digest, DocumentId};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tonic::Code;

use crate::client::{Client, answer, explain};
use crate::documents;
use crate::terminal::{DIM, GOOD, NOTE, Screen};

/// Maximum number of listed documents if a name is ambiguous.
const CANDIDATES: i32 = 10;

/// Finds or uploads the document, and waits until its text is ready or has failed.
pub(super) async fn find(client: &Client, screen: &mut Screen, what: &str) -> Result<v1::Document> {
    let document = if what.parse::<DocumentId>().is_ok() {
        by_id(client, what).await?
    } else if Path::new(what).is_file() {
        upload(client, screen, Path::new(what)).await?
    } else {
        by_name(client, what).await?
    };
    let bar = on_terminal(screen, || ProgressBar::new_spinner().with_message("reading its text"));
    let document = documents::wait_until_settled(client, &document.document_id, |_| bar.tick()).await?;
    bar.finish_and_clear();
    announce(screen, &document);
    Ok(document)
}

async fn by_id(client: &Client, id: &str) -> Result<v1::Document> {
    let request = v1::GetDocumentRequest { document_id: id.to_owned() };
    let found = answer(client.documents().get_document(request)).await?.document;
    found.context("invalid response of the server: the document is missing")
}

/// Uploads a file. The request id is derived from name and content, so the same file is uploaded once.
async fn upload(client: &Client, screen: &mut Screen, path: &Path) -> Result<v1::Document> {
    let bytes = tokio::fs::read(path).await.with_context(|| format!("{} cannot be read", path.display()))?;
    let name = documents::name_of(path);
    let request = format!("chat-{}", Digest::of_json(&json!([name, Digest::of(&bytes).as_str()])));
    screen.line(DIM, &format!("uploading {name} ({} KiB)", bytes.len().div_ceil(1024)));
    let bar = on_terminal(screen, || upload_bar(bytes.len()));
    let moving = bar.clone();
    let sent =
        documents::upload(client, &name, bytes.clone(), &request, move |sent| moving.set_position(sent as u64)).await;
    let document = match sent {
        // The document of this request was deleted: upload another one.
        Err(status) if status.code() == Code::NotFound => documents::upload(client, &name, bytes, "", |_| {}).await,
        sent => sent,
    };
    bar.finish_and_clear();
    document.map_err(|status| explain(&status))
}

async fn by_name(client: &Client, name: &str) -> Result<v1::Document> {
    let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
    let request = v1::ListDocumentsRequest {
        page_size: CANDIDATES,
        filter: format!("name:\"{quoted}\""),
        ..v1::ListDocumentsRequest::default()
    };
    choose(name, answer(client.documents().list_documents(request)).await?.documents)
}

/// Returns the newest document with exactly this name, otherwise the only document whose name contains it. Ignores
/// case.
fn choose(name: &str, found: Vec<v1::Document>) -> Result<v1::Document> {
    let exact = |document: &&v1::Document| document.name.to_lowercase() == name.to_lowercase();
    if let Some(document) = found.iter().find(exact) {
        return Ok(document.clone());
    }
    match found.as_slice() {
        [] => bail!("no document or file matches {name:?}"),
        [only] => Ok(only.clone()),
        several => {
            let names: Vec<String> =
                several.iter().map(|document| format!("  {}  {}", document.document_id, document.name)).collect();
            bail!("the names of several documents contain {name:?}; use an id:\n{}", names.join("\n"))
        }
    }
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

/// Returns the bar, or a hidden one if the screen is not a terminal.
fn on_terminal(screen: &Screen, bar: impl FnOnce() -> ProgressBar) -> ProgressBar {
    if screen.is_terminal { bar() } else { ProgressBar::hidden() }
}

fn upload_bar(bytes: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}");
    ProgressBar::new(bytes as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str) -> v1::Document {
        v1::Document { name: name.to_owned(), document_id: format!("id of {name}"), ..v1::Document::default() }
    }

    #[test]
    fn an_exact_name_wins_and_several_parts_are_listed() {
        let found = || vec![document("my invoice.pdf"), document("Invoice.pdf")];
        assert_eq!(choose("invoice.pdf", found()).unwrap().name, "Invoice.pdf");
        assert_eq!(choose("my", vec![document("my invoice.pdf")]).unwrap().name, "my invoice.pdf");
        let refused = choose("invoice", found()).unwrap_err().to_string();
        assert!(refused.contains("id of Invoice.pdf") && refused.contains("id of my invoice.pdf"), "{refused}");
        assert!(choose("invoice", Vec::new()).is_err());
    }
}
