//! `folio document`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::ValueEnum as _;
use folio_proto::v1;
use serde_json::{Value, json};

use super::document_parts::{self, PartsArguments, Split};
use super::export::Destination;
use super::organization::Switch;
use super::output::View;
use super::{
    DataArguments, ItemArguments, ListArguments, StoresArguments, deleted, document_structure, list_items, present,
    tag, time, update_mask,
};
use crate::client::{Client, answer, explain};
use crate::documents::{self, NewFile};
use crate::progress::{Progress, ProgressLine};
use crate::{names, secret_input};

pub(super) const COLUMNS: [&str; 6] = ["document_id", "name", "state", "pages", "size_bytes", "create_time"];

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Upload files and wait for their texts. A file that was uploaded before is not uploaded again.
    Add(Add),
    /// List documents, newest first.
    List(List),
    /// Print a document without its text.
    Show(ItemArguments),
    /// Print the text of a document.
    Text(Text),
    /// List the sections of a document.
    Outline(ItemArguments),
    /// Print the text of a section of a document.
    Section(document_structure::Section),
    /// List the hyperlinks of a document.
    Links(document_structure::Elements),
    /// List the images that are embedded in a document, or write the images of a PDF file to a folder.
    Images(document_structure::Images),
    /// Write the file of a document, or its PDF rendition, to a file or to standard output.
    Download(Download),
    /// Extract the text of a document again, and wait for it.
    Reread(ItemArguments),
    /// List the parts of a mail, an archive or a split PDF, and the attachments and archive members that were refused.
    Parts(PartsArguments),
    /// Split a PDF into documents, or print the documents that it seems to contain. The PDF is kept.
    Split(Split),
    /// Add tags to a document, and remove tags from it.
    Tag(Tag),
    /// Delete a document with its text and its extractions.
    #[command(visible_alias = "delete")]
    Rm(ItemArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Add {
    /// The files: PDF, PNG, JPEG, TIFF, office documents, mail (EML, MSG), archives (ZIP, TAR, TAR.GZ), HTML, Markdown, CSV or text.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A tag of the documents, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// An entry of the metadata of the documents; may be given several times.
    #[arg(long = "metadata", value_name = "KEY=VALUE", value_parser = entry)]
    metadata: Vec<(String, String)>,
    /// Read the password of protected PDFs from the terminal, or from the first line of standard input. The password is
    /// not stored.
    #[arg(long)]
    password: bool,
    /// Let an agent propose a schema, a prompt and an extraction for each document [default: the setting of the organization].
    #[arg(long, value_enum, value_name = "STATE")]
    auto_create: Option<Switch>,
    /// Credit that the model calls of the agent may cost for each document [default: the budget of the server].
    #[arg(long, value_name = "CREDITS")]
    budget: Option<u64>,
    /// Do not wait for the texts.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    data: DataArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Only documents with this tag, by id or name; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only documents whose texts are in this state, of the newest 10,000 documents.
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    #[command(flatten)]
    list: ListArguments,
}

/// The state of the text of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// The text waits to be extracted.
    Uploaded,
    /// The text is being extracted.
    Processing,
    /// The text is available.
    Ready,
    /// The document has no text.
    NoText,
    /// The text could not be extracted.
    Failed,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Download {
    /// Write the PDF rendition: the images of an image file, the pages of an office document, or the text of another file.
    #[arg(long)]
    pdf: bool,
    /// The file to which the document is written [default: standard output].
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// The id or the name.
    #[arg(value_name = "ID or NAME")]
    item: String,
    #[command(flatten)]
    stores: StoresArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Text {
    /// The first page.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    from_page: u32,
    /// Maximum number of pages [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pages: Option<u32>,
    #[command(flatten)]
    item: ItemArguments,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Tag {
    #[command(flatten)]
    item: ItemArguments,
    /// A tag to add, by id or name; may be given several times.
    #[arg(long, value_name = "TAG", required_unless_present = "remove")]
    add: Vec<String>,
    /// A tag to remove, by id or name; may be given several times.
    #[arg(long, value_name = "TAG")]
    remove: Vec<String>,
}

pub(crate) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Add(add) => {
            let password = password(add.password).await?;
            add.data.run(async |client| upload(&client, &add, password).await).await
        }
        Command::List(list) => list.list.data.run(async |client| documents_of(&client, &list).await).await,
        Command::Show(show) => show.data.run(async |client| one(&client, &show.item).await).await,
        Command::Text(text) => text.item.data.run(async |client| pages(&client, &text).await).await,
        Command::Outline(outline) => {
            outline.data.run(async |client| document_structure::outline(&client, &outline.item).await).await
        }
        Command::Section(section) => section.run().await,
        Command::Links(links) => links.run().await,
        Command::Images(images) => images.run().await,
        Command::Download(download) => {
            let to_terminal = download.to.is_none() && std::io::stdout().is_terminal();
            ensure!(!to_terminal, "the document may be a binary file: pass --to FILE, or redirect the output");
            download.stores.run(async |client| write(&client, &download).await).await
        }
        Command::Reread(reread) => reread.data.run(async |client| read_again(&client, &reread.item).await).await,
        Command::Parts(parts) => parts.item.data.run(async |client| document_parts::parts(&client, &parts).await).await,
        Command::Split(split) => split.item.data.run(async |client| document_parts::split(&client, &split).await).await,
        Command::Tag(tag) => tag.item.data.run(async |client| change_tags(&client, &tag).await).await,
        Command::Rm(rm) => rm.data.run(async |client| remove(&client, &rm.item).await).await,
    }
}

/// Reads the password of protected PDFs if the flag requests it. Empty: none.
pub(super) async fn password(is_requested: bool) -> Result<String> {
    if !is_requested {
        return Ok(String::new());
    }
    let password = secret_input::read("password of the PDF: ").await?;
    ensure!(!password.is_empty(), "the password is empty");
    Ok(password)
}

/// Uploads every file. A failure of one file does not stop the others, and fails the command after its output.
async fn upload(client: &Client, add: &Add, password: String) -> Result<View> {
    let template = NewFile {
        tag_ids: tag::ids(client, &add.tags).await?,
        metadata: add.metadata.iter().cloned().collect(),
        password,
        auto_create: add.auto_create.map(|state| state == Switch::On),
        credit_budget: add.budget,
        ..NewFile::default()
    };
    let mut rows = Vec::with_capacity(add.files.len());
    let mut failures = Vec::new();
    let progress = Progress::stderr();
    for path in &add.files {
        match upload_file(client, path, &template, !add.no_wait, &progress).await {
            Ok(document) => rows.push(row(&document)),
            Err(error) => failures.push(documents::failure(path, &error)),
        }
    }
    ensure!(!rows.is_empty(), "{}", failures.join("\n"));
    let view = View::list(COLUMNS, rows);
    Ok(if failures.is_empty() { view } else { view.failing(failures.join("\n")) })
}

async fn upload_file(
    client: &Client,
    path: &Path,
    template: &NewFile,
    waits: bool,
    progress: &Progress,
) -> Result<v1::Document> {
    let progress = progress.line(&documents::name_of(path));
    let document = documents::add(client, path, template, &progress).await?;
    if waits { read_text(client, &document.document_id, &progress).await } else { Ok(document) }
}

/// Writes the file of a document, or its PDF rendition.
async fn write(client: &Client, download: &Download) -> Result<()> {
    let document = documents::find(client, &download.item, names::choose).await?;
    let form = if download.pdf { v1::DownloadForm::Pdf } else { v1::DownloadForm::Original };
    let request = v1::DownloadDocumentRequest { document_id: document.document_id, form: form.into() };
    let mut parts = answer(client.documents().download_document(request)).await?;
    let mut destination = Destination::open(download.to.as_deref())?;
    while let Some(part) = parts.message().await.map_err(|status| explain(&status))? {
        if let Some(v1::download_document_response::Part::Chunk(chunk)) = part.part {
            destination.write(&chunk)?;
        }
    }
    destination.finish()
}

async fn read_again(client: &Client, what: &str) -> Result<View> {
    let v1::Document { document_id, name, .. } = documents::find(client, what, names::choose).await?;
    let request = v1::ReadDocumentAgainRequest { document_id: document_id.clone(), ..Default::default() };
    answer(client.documents().read_document_again(request)).await?;
    Ok(View::one(row(&read_text(client, &document_id, &Progress::stderr().line(&name)).await?)))
}

/// Waits until the text of a document is extracted. Prints a note if the document has no text.
async fn read_text(client: &Client, document_id: &str, progress: &ProgressLine) -> Result<v1::Document> {
    let document = documents::read_text(client, document_id, progress).await?;
    if document.state() != v1::DocumentState::Ready {
        progress.note(&format!("no text: {}", document.state_reason));
    }
    Ok(document)
}

async fn one(client: &Client, what: &str) -> Result<View> {
    Ok(View::one(row(&documents::find(client, what, names::choose).await?)))
}

async fn documents_of(client: &Client, list: &List) -> Result<View> {
    let tags = tag::ids(client, &list.tags).await?.into_iter().map(|id| format!("tag:{id}"));
    let state = list.state.and_then(|state| state.to_possible_value());
    let state = state.map(|state| format!("state={}", state.get_name()));
    let conditions: Vec<String> = std::iter::once(list.list.filter()).chain(tags).chain(state).collect();
    let filter = conditions.join(" ").trim().to_owned();
    let rows = all(client, &filter, list.list.limit).await?.iter().map(row).collect();
    Ok(View::list(COLUMNS, rows))
}

/// Returns the documents that match a filter, newest first, at most `limit`.
pub(super) async fn all(client: &Client, filter: &str, limit: usize) -> Result<Vec<v1::Document>> {
    let found = list_items! {
        limit, client.documents().list_documents(ListDocumentsRequest { filter: filter.to_owned() }) => documents
    };
    found.await
}

async fn pages(client: &Client, text: &Text) -> Result<View> {
    let document = documents::find(client, &text.item.item, names::choose).await?;
    let (mut from_page, mut left) = (text.from_page, text.pages.unwrap_or(u32::MAX));
    let mut pages = Vec::new();
    while left > 0 {
        let page_count = if left == u32::MAX { 0 } else { left };
        let request = v1::GetDocumentTextRequest { document_id: document.document_id.clone(), from_page, page_count };
        let part = answer(client.documents().get_document_text(request)).await?;
        let is_ready = part.state() == v1::DocumentState::Ready;
        ensure!(is_ready, "{} has no text: {}", document.name, reason(&part));
        left = left.saturating_sub(u32::try_from(part.pages.len())?);
        pages.extend(part.pages);
        if part.next_page == 0 {
            break;
        }
        from_page = part.next_page;
    }
    let text: Vec<&str> = pages.iter().map(|page| page.text.as_str()).collect();
    let text = text.join("\n\n");
    let rows = pages.iter().map(|page| json!({ "number": page.number, "text": page.text })).collect();
    Ok(View::list(["number", "text"], rows).text(text))
}

/// Returns the reason for which a text is not ready.
fn reason(part: &v1::GetDocumentTextResponse) -> String {
    if part.state_reason.is_empty() { state(part.state()) } else { part.state_reason.clone() }
}

/// Changes the tags of the version that was read, so that a concurrent change is not lost.
async fn change_tags(client: &Client, change: &Tag) -> Result<View> {
    let before = documents::find(client, &change.item.item, names::choose).await?;
    let (add, remove) = (tag::ids(client, &change.add).await?, tag::ids(client, &change.remove).await?);
    let document = v1::Document {
        document_id: before.document_id,
        tag_ids: changed(before.tag_ids, &add, &remove),
        etag: before.etag,
        ..v1::Document::default()
    };
    let request = v1::UpdateDocumentRequest {
        document: Some(document),
        update_mask: update_mask(&["tag_ids"]),
        ..Default::default()
    };
    Ok(View::one(row(&present(answer(client.documents().update_document(request)).await?.document)?)))
}

fn changed(tags: Vec<String>, add: &[String], remove: &[String]) -> Vec<String> {
    let kept = tags.into_iter().filter(|tag| !remove.contains(tag));
    let mut tags: Vec<String> = kept.collect();
    for tag in add {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

async fn remove(client: &Client, what: &str) -> Result<View> {
    let document_id = documents::find(client, what, names::choose_only).await?.document_id;
    let request = v1::DeleteDocumentRequest { document_id: document_id.clone(), ..Default::default() };
    answer(client.documents().delete_document(request)).await?;
    Ok(deleted(&document_id))
}

pub(super) fn row(document: &v1::Document) -> Value {
    json!({
        "document_id": document.document_id, "name": document.name, "media_type": document.media_type,
        "size_bytes": document.size_bytes, "sha256": document.sha256, "tag_ids": document.tag_ids,
        "metadata": document.metadata, "partly_searchable_keys": document.partly_searchable_keys,
        "state": state(document.state()), "state_reason": document.state_reason,
        "pages": document.pages, "created_by": document.created_by,
        "create_time": time(document.create_time.as_ref()), "update_time": time(document.update_time.as_ref()),
        "parent_document_id": document.parent_document_id, "etag": document.etag,
    })
}

fn state(state: v1::DocumentState) -> String {
    state.as_str_name().trim_start_matches("DOCUMENT_STATE_").to_lowercase()
}

/// Parses `KEY=VALUE`.
pub(super) fn entry(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("invalid entry {text:?}: expected KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::output::Format;
    use super::*;

    #[test]
    fn tags_are_added_once_and_removed() {
        let list = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        assert_eq!(changed(list(&["a", "b"]), &list(&["b", "c"]), &list(&["a", "x"])), list(&["b", "c"]));
        assert_eq!(changed(list(&["a"]), &[], &list(&["a"])), list(&[]));
    }

    #[test]
    fn an_entry_is_divided_at_the_first_equals_sign() {
        assert_eq!(entry("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(entry("a").is_err());
    }

    #[test]
    fn a_row_has_the_state_as_a_word() {
        let document = v1::Document {
            document_id: "doc_1".to_owned(),
            name: "a.pdf".to_owned(),
            state: v1::DocumentState::NoText.into(),
            ..v1::Document::default()
        };
        let cut = v1::Document { partly_searchable_keys: vec!["note".to_owned()], ..document.clone() };
        assert_eq!(row(&cut)["partly_searchable_keys"], json!(["note"]));
        let table = View::list(COLUMNS, vec![row(&document)]).render(Format::Table);
        assert_eq!(table.lines().nth(1).unwrap(), "doc_1        a.pdf  no_text  0      0");
    }
}
