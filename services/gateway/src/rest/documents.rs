//! The routes of stored documents. [`super::uploads`] stores them.

use std::collections::BTreeMap;

use bytes::Bytes;
use folio_operations::document_notes::{DocumentNotes, GetDocumentNotes};
use folio_operations::documents::{
    DeleteDocument, Download, DownloadDocument, DownloadForm, GetDocument, ListDocuments, UpdateDocument,
};
use folio_resources::{Document, TextState};
use folio_types::{DocumentId, Reason, TagId, Timestamp, UserId};
use futures::StreamExt as _;
use http::StatusCode;
use http::header::ETAG;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::document_query::{self, DocumentQuery};
use super::endpoint::{delete, get, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::grid::Field;
use super::reply::{Message, Reply, etag};
use super::routes::{Level, Route, org_path, route};
use super::streamed::{File, Streamed, base64, to_json};

const DOCUMENT: &str = org_path!("/documents/{document_id}");
const PDF: &str = "application/pdf";
const JSON: &str = "application/json";

const FIELDS: &[Field] = &[
    Field::text("document_name", "name"),
    Field::text("documentName", "name"),
    Field::text("uploaded_by", "created_by"),
    Field::text("uploadedBy", "created_by"),
    Field::text("state", document_query::STAGE),
    Field::time("upload_date", "create_time"),
    Field::time("uploadDate", "create_time"),
    Field::same("tag_ids"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ListDocuments>(Level::One, get(org_path!("/documents"), list)),
        // The content makes the response a transfer.
        route::<DownloadDocument>(Level::One, get(DOCUMENT, find)),
        route::<DownloadDocument>(Level::Three, get(org_path!("/documents/{document_id}/file"), file)),
        route::<UpdateDocument>(Level::One, put(DOCUMENT, update)),
        route::<DeleteDocument>(Level::One, delete(DOCUMENT, remove)),
    ]
}

/// A document.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentBody {
    /// Identifies the document.
    id: String,
    /// Identifies the document whose content with `file_type=pdf` is the PDF rendition: the document itself.
    pdf_id: String,
    /// The name.
    document_name: String,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    upload_date: Timestamp,
    /// The name of the user that uploaded the document, or the id of a user without a name.
    uploaded_by: String,
    /// `ocr_processing`, `ocr_completed`, `ocr_failed`, or `llm_completed` if the document has an extraction.
    state: &'static str,
    /// The ids of the tags.
    tag_ids: Vec<String>,
    /// The media type.
    r#type: String,
    /// The metadata.
    metadata: BTreeMap<String, String>,
    /// Identifies the mail, archive or split PDF that the document is a part of. Absent: the document was uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<String>,
    /// The bytes in Base64. Null if the request has `include_content=false`. A document of a list has no such member.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    content: Option<Value>,
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentList {
    /// The documents of the page, newest first unless the request sorts them.
    documents: Vec<DocumentBody>,
    /// Number of documents that match, exact up to 10,000, and beyond that an estimate.
    total_count: u64,
    /// Number of documents before the page.
    skip: u32,
}

/// The form of a file.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum FileType {
    Original,
    Pdf,
}

impl From<FileType> for DownloadForm {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Original => Self::Original,
            FileType::Pdf => Self::Pdf,
        }
    }
}

/// The query parameters of a document.
#[derive(Debug, Deserialize, ToSchema)]
struct FindQuery {
    /// `original` (the default) or `pdf`.
    #[schema(inline)]
    file_type: Option<FileType>,
    /// False: the response has no content. Default: true.
    include_content: Option<bool>,
}

/// The query parameters of a file.
#[derive(Debug, Deserialize, ToSchema)]
struct FileQuery {
    /// `pdf` (the default) or `original`.
    #[schema(inline)]
    file_type: Option<FileType>,
}

/// The changed fields of a document. Null or absent: unchanged.
#[derive(Debug, Deserialize, ToSchema)]
struct DocumentFields {
    /// The new name.
    document_name: Option<String>,
    /// The ids of the new tags, which replace all stored ones.
    tag_ids: Option<Vec<String>>,
    /// The new metadata, which replaces all stored entries.
    metadata: Option<BTreeMap<String, String>>,
}

/// Returns the state that clients know.
pub(super) fn state(text: &TextState, has_extraction: bool) -> &'static str {
    document_query::state_of(match text {
        TextState::Uploaded => "uploaded",
        TextState::Processing => "processing",
        TextState::Ready if has_extraction => "extracted",
        TextState::Ready => "ready",
        TextState::NoText(_) => "no_text",
        TextState::Failed(_) => "failed",
    })
}

/// Returns the name of a user, or its id if it has none.
pub(super) fn user_name(user: &UserId, notes: &DocumentNotes) -> String {
    notes.names.get(user).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| user.to_string())
}

/// Returns the ids of tags. Error: status 400 with the malformed ids.
pub(super) fn tags(ids: &[String]) -> Result<Vec<TagId>, Failure> {
    let malformed: Vec<&String> = ids.iter().filter(|id| id.parse::<TagId>().is_err()).collect();
    if !malformed.is_empty() {
        return Err(Failure::bad_request(format!("Invalid tag IDs: {malformed:?}")));
    }
    Ok(ids.iter().filter_map(|id| id.parse().ok()).collect())
}

/// Returns the facts about documents that other resources contain.
pub(super) async fn notes(client: &Client, documents: &[Document]) -> Result<DocumentNotes, Failure> {
    let of_document = |document: &Document| document.id.clone();
    let users = documents.iter().map(|document| document.created_by.clone()).collect();
    client.run(GetDocumentNotes { documents: documents.iter().map(of_document).collect(), users }).await
}

fn body(document: &Document, notes: &DocumentNotes) -> DocumentBody {
    let id = document.id.to_string();
    DocumentBody {
        document_name: document.name.clone(),
        upload_date: document.created_at,
        uploaded_by: user_name(&document.created_by, notes),
        state: state(&document.state, notes.extracted.contains(&id)),
        tag_ids: document.tags.iter().map(ToString::to_string).collect(),
        r#type: document.media_type.clone(),
        metadata: document.metadata.clone(),
        parent_id: document.part.as_ref().map(|part| part.parent.to_string()),
        content: None,
        pdf_id: id.clone(),
        id,
    }
}

async fn list(client: Client, Query(query): Query<DocumentQuery>) -> Reply<Json<DocumentList>> {
    let page = query.page(FIELDS, |list| client.run(ListDocuments { list })).await?;
    let notes = notes(&client, &page.rows).await?;
    let documents = page.rows.iter().map(|document| body(document, &notes)).collect();
    Ok(Json(DocumentList { documents, total_count: page.total_count, skip: page.skip }))
}

async fn find(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<FindQuery>,
) -> Reply<Streamed<Json<DocumentBody>>> {
    let form: DownloadForm = query.file_type.unwrap_or(FileType::Original).into();
    let (document, content) = if query.include_content.unwrap_or(true) {
        let Download { document, content } = client.run(DownloadDocument { document_id, form }).await?;
        (document, Some(content.into_stream()))
    } else {
        (client.run(GetDocument { document_id }).await?, None)
    };
    let notes = notes(&client, std::slice::from_ref(&document)).await?;
    let mut body = body(&document, &notes);
    if form == DownloadForm::Pdf {
        PDF.clone_into(&mut body.r#type);
    }
    body.content = Some(Value::Null);
    let mut text = to_json(&body)?;
    // The state changes without the version.
    let etag = etag(document.version, body.state);
    let Some(content) = content else {
        let whole = futures::stream::iter([Ok(Bytes::from(text))]);
        return Ok(Streamed::new(&client, JSON, whole).header(ETAG, &etag));
    };
    // The content is the last member.
    text.truncate(text.len().saturating_sub("null}".len()));
    text.push(b'"');
    let (start, end) = ([Ok(Bytes::from(text))], [Ok(Bytes::from_static(b"\"}"))]);
    let whole = futures::stream::iter(start).chain(base64(content)).chain(futures::stream::iter(end));
    Ok(Streamed::new(&client, JSON, whole).header(ETAG, &etag))
}

async fn file(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<FileQuery>,
) -> Reply<Streamed<File>> {
    let form: DownloadForm = query.file_type.unwrap_or(FileType::Pdf).into();
    let Download { document, content } = client.run(DownloadDocument { document_id, form }).await?;
    let (name, media_type) = match form {
        DownloadForm::Original => (document.name, document.media_type),
        DownloadForm::Pdf => (pdf_name(&document.name), PDF.to_owned()),
    };
    Ok(Streamed::new(&client, &media_type, content.into_stream()).attachment(&name))
}

/// Returns the name of the PDF rendition of a file.
fn pdf_name(name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    format!("{}.pdf", if stem.is_empty() { name } else { stem })
}

async fn update(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Json(fields): Json<DocumentFields>,
) -> Reply<Json<Message>> {
    let DocumentFields { document_name, tag_ids, metadata } = fields;
    if document_name.is_none() && tag_ids.is_none() && metadata.is_none() {
        client.run(GetDocument { document_id }).await?;
        return Ok(Message::new("No updates provided"));
    }
    let tag_ids = tag_ids.as_deref().map(tags).transpose()?;
    let operation = UpdateDocument { document_id, name: document_name, tag_ids, metadata, etag: client.etag };
    client.run(operation).await.map_err(missing_tag)?;
    Ok(Message::new("Document updated successfully"))
}

/// Replaces the error of a missing tag.
pub(super) fn missing_tag(failure: Failure) -> Failure {
    if failure.missing_kind() != Some("tag") {
        return failure;
    }
    let text = format!("Invalid tag IDs: {:?}", [failure.error_detail("resource_id").unwrap_or_default()]);
    failure.when(Reason::NotFound, StatusCode::BAD_REQUEST, text)
}

async fn remove(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<Message>> {
    client.run(DeleteDocument { document_id, etag: client.etag }).await?;
    Ok(Message::new("Document deleted successfully"))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;
    use folio_types::Error;

    use super::*;

    #[test]
    fn a_document_is_ready_before_it_has_an_extraction() {
        for (text, has_extraction, expected) in [
            (TextState::Uploaded, false, "ocr_processing"),
            (TextState::Processing, true, "ocr_processing"),
            (TextState::Ready, false, "ocr_completed"),
            (TextState::Ready, true, "llm_completed"),
            (TextState::NoText("blank".to_owned()), false, "ocr_completed"),
            (TextState::Failed("broken".to_owned()), true, "ocr_failed"),
        ] {
            assert_eq!(state(&text, has_extraction), expected, "{text:?}");
        }
    }

    #[test]
    fn a_pdf_form_has_the_name_of_its_file() {
        let names = ["a.docx", "a.b.txt", "a", ".txt", "a.pdf"].map(pdf_name);
        assert_eq!(names, ["a.pdf", "a.b.pdf", "a.pdf", ".txt.pdf", "a.pdf"]);
    }

    #[test]
    fn only_a_missing_tag_is_an_invalid_value() {
        for (error, status) in [(Error::not_found("tag", "tag_1"), 400), (Error::not_found("document", "doc_1"), 404)] {
            assert_eq!(missing_tag(error.into()).into_response().status(), status);
        }
    }
}
