//! The routes of collections. No client of DocRouter calls them.

use std::collections::BTreeMap;

use folio_operations::ListRequest;
use folio_operations::collections::{
    CreateCollection, DeleteCollection, GetCollection, ListCollectionDocuments, ListCollections, UpdateCollection,
};
use folio_resources::{Collection, CollectionId, Document, fields};
use folio_types::{TagId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::list::{Limit, Skip, conditions, page};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const COLLECTIONS: &str = org_path!("/collections");
const COLLECTION: &str = org_path!("/collections/{collection_id}");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateCollection>(Level::Own, post(COLLECTIONS, create)),
        route::<ListCollections>(Level::Own, get(COLLECTIONS, list)),
        route::<GetCollection>(Level::Own, get(COLLECTION, find)),
        route::<UpdateCollection>(Level::Own, put(COLLECTION, update)),
        route::<DeleteCollection>(Level::Own, delete(COLLECTION, remove)),
        route::<ListCollectionDocuments>(
            Level::Own,
            get(org_path!("/collections/{collection_id}/documents"), documents),
        ),
    ]
}

/// The fields of a collection that clients set. A rule has 1 to 20 tags and metadata values together.
#[derive(Debug, Deserialize, ToSchema)]
struct CollectionFields {
    /// The name, unique in the organization.
    name: String,
    /// The purpose of the collection. Null: none.
    description: Option<String>,
    /// Members have all of these tags. Null: no such condition.
    tag_ids: Option<Vec<String>>,
    /// Members have all of these metadata values, compared exactly. Null: no such condition.
    metadata: Option<BTreeMap<String, String>>,
}

impl CollectionFields {
    fn tags(&self) -> Result<Vec<TagId>, Failure> {
        Ok(fields::tags("collection.tag_ids", self.tag_ids.as_deref().unwrap_or_default())?)
    }
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionBody {
    /// Identifies the collection.
    id: String,
    /// The name.
    name: String,
    /// The purpose of the collection.
    description: Option<String>,
    /// Members have all of these tags.
    tag_ids: Vec<String>,
    /// Members have all of these metadata values.
    metadata: BTreeMap<String, String>,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the collection.
    created_by: String,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<&Collection> for CollectionBody {
    fn from(collection: &Collection) -> Self {
        Self {
            id: collection.id.to_string(),
            name: collection.name.clone(),
            description: collection.description.clone(),
            tag_ids: collection.rule.tags.iter().map(ToString::to_string).collect(),
            metadata: collection.rule.metadata.clone(),
            created_at: collection.created_at,
            created_by: collection.created_by.to_string(),
            updated_at: collection.updated_at,
        }
    }
}

/// The query parameters of a list of collections, or of the documents of a collection.
#[derive(Debug, Deserialize, ToSchema)]
struct CollectionQuery {
    /// Number of items before the page.
    #[serde(default)]
    #[schema(value_type = u32)]
    skip: Skip,
    /// Maximum number of items of the page, at most 100.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 10)]
    limit: Limit,
    /// Part of the name.
    name: Option<String>,
}

impl CollectionQuery {
    fn request(&self) -> ListRequest {
        ListRequest { filter: conditions(&[("name:", self.name.as_deref())]), ..ListRequest::default() }
    }
}

/// A page of collections.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionList {
    /// The collections of the page, newest first.
    collections: Vec<CollectionBody>,
    /// Number of collections that match, exact up to 1,024.
    total_count: u64,
    /// Number of collections before the page.
    skip: u32,
}

/// A document of a collection.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionDocument {
    /// Identifies the document.
    id: String,
    /// The name.
    document_name: String,
    /// The time of the upload.
    #[schema(value_type = String, format = DateTime)]
    upload_date: Timestamp,
    /// The ids of the tags.
    tag_ids: Vec<String>,
    /// The metadata.
    metadata: BTreeMap<String, String>,
}

impl From<&Document> for CollectionDocument {
    fn from(document: &Document) -> Self {
        Self {
            id: document.id.to_string(),
            document_name: document.name.clone(),
            upload_date: document.created_at,
            tag_ids: document.tags.iter().map(ToString::to_string).collect(),
            metadata: document.metadata.clone(),
        }
    }
}

/// A page of the documents of a collection.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionDocumentList {
    /// The documents of the page, newest first.
    documents: Vec<CollectionDocument>,
    /// Number of documents that match, exact up to 1,024.
    total_count: u64,
    /// Number of documents before the page.
    skip: u32,
}

async fn create(client: Client, Json(fields): Json<CollectionFields>) -> Reply<Versioned<CollectionBody>> {
    let operation = CreateCollection {
        tag_ids: fields.tags()?,
        name: fields.name,
        description: fields.description.unwrap_or_default(),
        metadata: fields.metadata.unwrap_or_default(),
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn list(client: Client, Query(query): Query<CollectionQuery>) -> Reply<Json<CollectionList>> {
    let read = |list| client.run(ListCollections { list });
    let page = page(query.skip, query.limit, query.request(), read).await?;
    let collections = page.rows.iter().map(Into::into).collect();
    Ok(Json(CollectionList { collections, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id(collection_id): Id<CollectionId>) -> Reply<Versioned<CollectionBody>> {
    Ok(Versioned::of(&client.run(GetCollection { collection_id }).await?))
}

async fn update(
    client: Client,
    Id(collection_id): Id<CollectionId>,
    Json(fields): Json<CollectionFields>,
) -> Reply<Versioned<CollectionBody>> {
    let operation = UpdateCollection {
        collection_id,
        tag_ids: Some(fields.tags()?),
        name: Some(fields.name),
        description: Some(fields.description.unwrap_or_default()),
        metadata: Some(fields.metadata.unwrap_or_default()),
        etag: client.etag,
    };
    Ok(Versioned::of(&client.run(operation).await?))
}

async fn remove(client: Client, Id(collection_id): Id<CollectionId>) -> Reply<Json<Message>> {
    client.run(DeleteCollection { collection_id, etag: client.etag }).await?;
    Ok(Message::new("Collection deleted successfully"))
}

async fn documents(
    client: Client,
    Id(collection_id): Id<CollectionId>,
    Query(query): Query<CollectionQuery>,
) -> Reply<Json<CollectionDocumentList>> {
    let read = |list| client.run(ListCollectionDocuments { collection_id: collection_id.clone(), list });
    let page = page(query.skip, query.limit, query.request(), read).await?;
    let documents = page.rows.iter().map(Into::into).collect();
    Ok(Json(CollectionDocumentList { documents, total_count: page.total_count, skip: page.skip }))
}
