//! The routes that store documents.

use std::collections::BTreeMap;

use folio_operations::documents::{DeleteDocument, UploadDocument};
use folio_resources::Document;
use folio_types::{Reason, TagId, Timestamp};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::documents;
use super::endpoint::post;
use super::extract::{Client, Json};
use super::failure::Failure;
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::upload::{JsonUpload, MultipartUpload, UploadedFile};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<UploadDocument>(Level::One, post(org_path!("/documents"), create).streaming()),
        route::<UploadDocument>(Level::Three, post(org_path!("/documents/multipart"), create_from_form).streaming()),
    ]
}

/// A stored document.
#[derive(Debug, Serialize, ToSchema)]
struct UploadedDocument {
    /// Identifies the document.
    document_id: String,
    /// The name.
    document_name: String,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    upload_date: Timestamp,
    /// The name of the user that uploaded the document, or the id of a user without a name.
    uploaded_by: String,
    /// The state of the text: `ocr_processing`, `ocr_completed` or `ocr_failed`.
    state: &'static str,
    /// The ids of the tags.
    tag_ids: Vec<String>,
    /// The media type.
    r#type: String,
    /// The metadata.
    metadata: BTreeMap<String, String>,
}

/// The stored documents, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
struct UploadedDocuments {
    documents: Vec<UploadedDocument>,
}

/// The stored document.
#[derive(Debug, Serialize, ToSchema)]
struct UploadedForm {
    document: UploadedDocument,
}

/// Describes stored documents. A failure leaves the ids of the users instead of their names, because the documents are stored.
async fn describe(client: &Client, stored: &[Document]) -> Vec<UploadedDocument> {
    let notes = documents::notes(client, stored).await.unwrap_or_default();
    let uploaded = |document: &Document| UploadedDocument {
        document_id: document.id.to_string(),
        document_name: document.name.clone(),
        upload_date: document.created_at,
        uploaded_by: documents::user_name(&document.created_by, &notes),
        state: documents::state(&document.state, false),
        tag_ids: document.tags.iter().map(ToString::to_string).collect(),
        r#type: document.media_type.clone(),
        metadata: document.metadata.clone(),
    };
    stored.iter().map(uploaded).collect()
}

async fn create(client: Client, JsonUpload(files): JsonUpload) -> Reply<Json<UploadedDocuments>> {
    let stored = store(&client, files).await?;
    Ok(Json(UploadedDocuments { documents: describe(&client, &stored).await }))
}

async fn create_from_form(client: Client, MultipartUpload(file): MultipartUpload) -> Reply<Json<UploadedForm>> {
    let stored = store(&client, vec![file]).await?;
    let document = describe(&client, &stored).await.pop();
    let document = document.ok_or_else(|| folio_types::Error::internal("no document was stored"))?;
    Ok(Json(UploadedForm { document }))
}

/// Stores all files, or none of them.
async fn store(client: &Client, files: Vec<UploadedFile>) -> Result<Vec<Document>, Failure> {
    let tags = tags_of(&files)?;
    let mut stored: Vec<Document> = Vec::new();
    for (number, (file, tag_ids)) in files.into_iter().zip(tags).enumerate() {
        match store_one(client, number, file, tag_ids).await {
            Ok(document) => stored.push(document),
            Err(failure) => {
                remove(client, &stored).await;
                return Err(failure);
            }
        }
    }
    Ok(stored)
}

async fn store_one(
    client: &Client,
    number: usize,
    file: UploadedFile,
    tag_ids: Vec<TagId>,
) -> Result<Document, Failure> {
    let name = file.name.clone();
    let upload = UploadDocument {
        name: file.name.clone(),
        tag_ids,
        metadata: file.metadata.clone(),
        size_bytes: Some(file.size_bytes()),
        password: file.password.clone(),
        auto_create: file.auto_create,
        credit_budget: file.credit_budget,
        content: file.into_content(),
    };
    let stored = client.run_part(&format!("document {number}"), upload).await;
    stored.map_err(|failure| {
        let extension = name.rsplit_once('.').map(|(_, extension)| format!(".{extension}")).unwrap_or_default();
        let unsupported = format!("Unsupported file extension {extension}: {name}");
        documents::missing_tag(failure.when(Reason::UnsupportedType, StatusCode::BAD_REQUEST, unsupported))
    })
}

/// Removes the documents of a request that failed.
async fn remove(client: &Client, stored: &[Document]) {
    for document in stored {
        let removal = DeleteDocument { document_id: document.id.clone(), etag: None };
        if client.run_part(&format!("removal of {}", document.id), removal).await.is_err() {
            tracing::warn!(document = %document.id, "a document of a failed upload was not removed");
        }
    }
}

/// Returns the tags of each file. Error: status 400 with the malformed ids of all files.
fn tags_of(files: &[UploadedFile]) -> Result<Vec<Vec<TagId>>, Failure> {
    documents::tags(&files.iter().flat_map(|file| file.tag_ids.clone()).collect::<Vec<_>>())?;
    files.iter().map(|file| documents::tags(&file.tag_ids)).collect()
}
