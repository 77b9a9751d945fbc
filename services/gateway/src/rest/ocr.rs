//! The routes of the text of documents and of the boxes of its words.

use std::ops::RangeInclusive;

use bytes::Bytes;
use folio_operations::documents::{
    DocumentText, DownloadDocument, GetDocument, GetDocumentText, GetPageWords, ReadDocumentAgain,
};
use folio_resources::{Document, TextState};
use folio_storage::value::PageText;
use folio_types::{DocumentId, Error, Result, Timestamp};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http::header::CACHE_CONTROL;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::documents;
use super::endpoint::{self, get, post};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::ocr_blocks::{self, Block};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::streamed::{ArrayWriter, Html, Markdown, PlainText, Streamable, Streamed};

const JSON: &str = "application/json";
/// Extensions of the files whose text is not recognized.
const WITHOUT_OCR: [&str; 5] = ["csv", "xls", "xlsx", "txt", "md"];
/// `Cache-Control` of exports.
const EXPORT_CACHE: &str = "private, max-age=60";
const NO_DATA: &str = "OCR data not found";

/// The routes with the whole text are transfers, and have the class of [`DownloadDocument`].
pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<DownloadDocument>(Level::One, get(org_path!("/ocr/download/text/{document_id}"), text)),
        route::<GetDocument>(Level::One, get(org_path!("/ocr/download/metadata/{document_id}"), metadata)),
        route::<DownloadDocument>(Level::One, get(org_path!("/ocr/download/blocks/{document_id}"), blocks)),
        route::<DownloadDocument>(Level::Three, get(org_path!("/ocr/download/json/{document_id}"), json)),
        route::<DownloadDocument>(Level::Three, get(org_path!("/ocr/export/markdown/{document_id}"), markdown)),
        route::<DownloadDocument>(Level::Three, get(org_path!("/ocr/export/html/{document_id}"), html)),
        route::<ReadDocumentAgain>(Level::Three, post(org_path!("/ocr/run/{document_id}"), run)),
    ]
}

/// The query parameters of a text.
#[derive(Debug, Deserialize, ToSchema)]
struct TextQuery {
    /// The number of a page, from 1. Default: all pages.
    page_num: Option<u32>,
}

/// The encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Plain,
    Gzip,
}

/// The query parameters of the stored text with its boxes.
#[derive(Debug, Deserialize, ToSchema)]
struct FormatQuery {
    /// `plain` (the default), or `gzip` for a response that is always compressed.
    #[schema(inline)]
    format: Option<Format>,
}

/// The query parameters of a run.
#[derive(Debug, Deserialize, ToSchema)]
struct RunQuery {
    /// False: a document whose text is available is not read again. Default: true.
    force: Option<bool>,
}

/// Facts about the text of a document.
#[derive(Debug, Serialize, ToSchema)]
struct TextMetadata {
    /// Number of pages.
    n_pages: u32,
    /// The time at which the text was stored.
    #[schema(value_type = String, format = DateTime)]
    ocr_date: Timestamp,
    /// Null: the server does not report the program that recognized the text.
    ocr_type: Option<String>,
    /// Identifies the document.
    document_id: String,
    /// Number of pages.
    page_count: u32,
    /// The state of the document.
    processing_status: &'static str,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The start of a run.
#[derive(Debug, Serialize, ToSchema)]
struct QueuedRun {
    /// `queued`.
    status: &'static str,
    /// Identifies the document.
    document_id: String,
}

/// A page of the stored text.
#[derive(Debug, Serialize, ToSchema)]
struct StoredPage {
    /// The position of the page, from 0.
    index: u32,
    /// The text.
    markdown: String,
}

/// The blocks of a document, as a JSON array.
enum Blocks {}

impl Streamable for Blocks {
    fn content(document: &mut endpoint::Document) -> Value {
        let block = document.reference::<Block>();
        json!({ "application/json": { "schema": { "type": "array", "items": block } } })
    }
}

/// The text of a document with its blocks, as a JSON object.
enum StoredText {}

impl Streamable for StoredText {
    fn content(document: &mut endpoint::Document) -> Value {
        let array = |items: Value| json!({ "type": "array", "items": items });
        let (pages, blocks) = (document.reference::<StoredPage>(), document.reference::<Block>());
        let properties = json!({ "pages": array(pages), "Blocks": array(blocks) });
        let schema = json!({ "type": "object", "properties": properties, "required": ["pages", "Blocks"] });
        json!({ "application/json": { "schema": schema } })
    }
}

/// Returns true if the text of a file with this name is recognized.
fn has_ocr(name: &str) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase());
    !extension.is_some_and(|extension| WITHOUT_OCR.contains(&extension.as_str()))
}

/// Returns a document whose text is recognized. Error: status 404.
async fn recognized(client: &Client, document_id: DocumentId) -> Result<Document, Failure> {
    let document = client.run(GetDocument { document_id }).await?;
    if has_ocr(&document.name) {
        return Ok(document);
    }
    Err(Failure::not_found("OCR not supported for this document extension"))
}

/// Returns a document whose text is available. Error: status 404, with this text if the document exists.
async fn ready(client: &Client, document_id: DocumentId, missing: &str) -> Result<Document, Failure> {
    let document = recognized(client, document_id).await?;
    if document.state == TextState::Ready { Ok(document) } else { Err(Failure::not_found(missing)) }
}

/// Returns the pages of a text from the first response on. The text must not be extracted again meanwhile.
fn pages(client: Client, request: GetDocumentText, first: DocumentText) -> impl Stream<Item = Result<PageText>> + Send {
    async_stream::try_stream! {
        let (mut text, is_whole) = (first, request.page_count == 0);
        loop {
            for page in std::mem::take(&mut text.pages) {
                yield page;
            }
            let Some(from_page) = text.next_page.filter(|_| is_whole) else { break };
            text = client.call(GetDocumentText { from_page, ..request.clone() }).await?;
            if text.pages.is_empty() {
                Err::<(), _>(changed())?;
            }
        }
    }
}

fn changed() -> Error {
    let message = "the text of the document was extracted again meanwhile; retry";
    Error::version_conflict(message)
}

/// Reads the beginning of a text. Error: status 404 with this text if it has no such page.
async fn beginning(
    client: &Client,
    document_id: DocumentId,
    page: Option<u32>,
    missing: &str,
) -> Result<(GetDocumentText, DocumentText), Failure> {
    recognized(client, document_id.clone()).await?;
    if page == Some(0) {
        return Err(Failure::not_found(missing));
    }
    let (from_page, page_count) = (page.unwrap_or(1), u32::from(page.is_some()));
    let request = GetDocumentText { document_id, from_page, page_count };
    let first = client.run(request.clone()).await?;
    if first.pages.is_empty() {
        return Err(Failure::not_found(missing));
    }
    Ok((request, first))
}

/// Returns the chunks of a text whose pages are separated.
fn joined(
    pages: impl Stream<Item = Result<PageText>> + Send + 'static,
    separator: &'static str,
) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    let chunk = move |(number, page): (usize, Result<PageText>)| {
        let start = if number == 0 { "" } else { separator };
        page.map(|page| Bytes::from(format!("{start}{}", page.text)))
    };
    pages.enumerate().map(chunk)
}

async fn text(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<TextQuery>,
) -> Reply<Streamed<PlainText>> {
    let (request, first) = beginning(&client, document_id, query.page_num, "OCR text not found").await?;
    let chunks = joined(pages(client.clone(), request, first), "\n");
    Ok(Streamed::new(&client, PlainText::MEDIA_TYPE, chunks))
}

async fn markdown(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Streamed<Markdown>> {
    let (request, first) = beginning(&client, document_id, None, NO_DATA).await?;
    let chunks = joined(pages(client.clone(), request, first), "\n\n---\n\n");
    Ok(Streamed::new(&client, Markdown::MEDIA_TYPE, chunks).header(CACHE_CONTROL, EXPORT_CACHE))
}

async fn html(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Streamed<Html>> {
    let (request, first) = beginning(&client, document_id, None, NO_DATA).await?;
    let sections = pages(client.clone(), request, first).map_ok(|page| Bytes::from(section(&page.text)));
    let edge = |text: &'static str| futures::stream::iter([Ok(Bytes::from_static(text.as_bytes()))]);
    let start = edge("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"></head><body>\n");
    let whole = start.chain(sections).chain(edge("</body></html>\n"));
    Ok(Streamed::new(&client, Html::MEDIA_TYPE, whole).header(CACHE_CONTROL, EXPORT_CACHE))
}

/// Returns a page as HTML.
fn section(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!("<section><pre>{escaped}</pre></section>\n")
}

async fn metadata(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<TextMetadata>> {
    let document = ready(&client, document_id, "OCR metadata not found").await?;
    let notes = documents::notes(&client, std::slice::from_ref(&document)).await?;
    let id = document.id.to_string();
    Ok(Json(TextMetadata {
        n_pages: document.pages,
        ocr_date: document.text_generation.unwrap_or(document.updated_at),
        ocr_type: None,
        page_count: document.pages,
        processing_status: documents::state(&document.state, notes.extracted.contains(&id)),
        created_at: document.created_at,
        updated_at: document.updated_at,
        document_id: id,
    }))
}

/// Returns the elements of the array of blocks, page by page.
fn elements(
    client: Client,
    document_id: DocumentId,
    pages: RangeInclusive<u32>,
) -> impl Stream<Item = Result<Bytes>> + Send {
    async_stream::try_stream! {
        let mut array = ArrayWriter::default();
        for page in pages {
            let words = client.call(GetPageWords { document_id: document_id.clone(), page }).await?;
            yield array.elements(&ocr_blocks::of_page(page, &words.text, &words.boxes))?;
        }
    }
}

async fn blocks(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Streamed<Blocks>> {
    let document = ready(&client, document_id, NO_DATA).await?;
    let edge = |text: &'static str| futures::stream::iter([Ok(Bytes::from_static(text.as_bytes()))]);
    let elements = elements(client.clone(), document.id, 1..=document.pages);
    Ok(Streamed::new(&client, JSON, edge("[").chain(elements).chain(edge("]"))))
}

async fn json(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<FormatQuery>,
) -> Reply<Streamed<StoredText>> {
    let document = ready(&client, document_id.clone(), NO_DATA).await?;
    let request = GetDocumentText { document_id: document_id.clone(), from_page: 1, page_count: 0 };
    let first = client.run(request.clone()).await?;
    let (of_pages, of_words) = (client.clone(), client.clone());
    let whole = async_stream::try_stream! {
        yield Bytes::from_static(b"{\"pages\":[");
        let mut array = ArrayWriter::default();
        let mut pages = pages(of_pages, request, first).boxed();
        while let Some(PageText { number, text, .. }) = pages.try_next().await? {
            yield array.elements(&[StoredPage { index: number.saturating_sub(1), markdown: text }])?;
        }
        yield Bytes::from_static(b"],\"Blocks\":[");
        let mut elements = elements(of_words, document_id, 1..=document.pages).boxed();
        while let Some(part) = elements.try_next().await? {
            yield part;
        }
        yield Bytes::from_static(b"]}");
    };
    let response = Streamed::new(&client, JSON, whole).header(CACHE_CONTROL, "private, max-age=3600");
    Ok(if query.format == Some(Format::Gzip) { response.gzipped().await } else { response })
}

async fn run(client: Client, Id(document_id): Id<DocumentId>, Query(query): Query<RunQuery>) -> Reply<Json<QueuedRun>> {
    let document = client.run(GetDocument { document_id: document_id.clone() }).await?;
    if !has_ocr(&document.name) {
        return Err(Failure::bad_request("Document type does not support OCR"));
    }
    if query.force.unwrap_or(true) || document.state != TextState::Ready {
        client.run(ReadDocumentAgain { document_id }).await?;
    }
    Ok(Json(QueuedRun { status: "queued", document_id: document.id.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_sheets_are_not_recognized() {
        for name in ["a.csv", "a.XLS", "a.b.xlsx", ".txt", "a.md"] {
            assert!(!has_ocr(name), "{name}");
        }
        for name in ["a.pdf", "a.docx", "txt", "a.txt.png", ""] {
            assert!(has_ocr(name), "{name}");
        }
    }

    #[test]
    fn a_page_cannot_contain_markup() {
        assert_eq!(section("a<b> & c"), "<section><pre>a&lt;b&gt; &amp; c</pre></section>\n");
    }

    #[tokio::test]
    async fn pages_are_joined_by_their_separator() {
        let page = |number, text: &str| -> Result<PageText> {
            Ok(PageText { number, text: text.to_owned(), gap: None, first_cell: None })
        };
        let pages = futures::stream::iter([page(1, "a"), page(2, ""), page(3, "b")]);
        let chunks: Vec<Bytes> = joined(pages, "\n").try_collect().await.unwrap();
        assert_eq!(chunks.concat(), b"a\n\nb");
    }
}
