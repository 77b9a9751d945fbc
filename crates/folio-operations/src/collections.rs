//! Operations on collections of documents.

use std::collections::BTreeMap;

use folio_resources::{
    COLLECTIONS_MAX, Collection, CollectionChange, CollectionFilter, CollectionId, CollectionRule, Document,
    DocumentFilter, Resource as _, check_description,
};
use folio_storage::quota_exceeded;
use folio_types::access::Scope;
use folio_types::page::{Order, PageRequest};
use folio_types::{Etag, Result, TagId, limits};
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys};
use crate::operation::{Operation, delete_operation, get_operation, list_operation};

service! {
    "CollectionService", Some(Scope::Definitions) =>
    CreateCollection, GetCollection, ListCollections, UpdateCollection, DeleteCollection, ListCollectionDocuments
}

/// The message of the API that contains the fields of a collection, in front of the names of the fields in errors.
const PREFIX: &str = "collection.";
const NAME: &str = "collection.name";
const DESCRIPTION: &str = "collection.description";

/// Creates a collection. Errors: `NAME_TAKEN`, without regard to case; `NOT_FOUND` if a tag does not exist; `QUOTA_EXCEEDED`
/// over [`COLLECTIONS_MAX`].
#[derive(Debug, Clone, Serialize)]
pub struct CreateCollection {
    pub name: String,
    /// Empty: none.
    pub description: String,
    pub tag_ids: Vec<TagId>,
    pub metadata: BTreeMap<String, String>,
}

impl Operation for CreateCollection {
    const DECLARATION: Declaration = SERVICE.change("CreateCollection");
    type Output = Collection;

    async fn run(self, context: &Context) -> Result<Collection> {
        folio_resources::fields::check_name(NAME, &self.name)?;
        let description = check_description(DESCRIPTION, &self.description)?;
        let rule = CollectionRule { tags: self.tag_ids, metadata: self.metadata }.checked(PREFIX)?;
        let id = Collection::derive_id(&context.request.id_parts());
        let (org, collections) = (&context.principal().org, context.stores().of::<Collection>());
        if collections.get(org, &id).await?.is_none() {
            let first = PageRequest { size: 1, ..PageRequest::default() };
            if collections.list(org, &CollectionFilter::default(), &first).await?.total >= COLLECTIONS_MAX {
                return Err(quota_exceeded("collections", COLLECTIONS_MAX));
            }
        }
        context.create(CollectionChange::Create { name: self.name, description, rule }).await
    }
}

get_operation! {
    GetCollection { collection_id: CollectionId } -> Collection
}

list_operation! {
    /// Lists collections. Filter: `name:` a part of the name, `name=` the name.
    ListCollections -> Collection; limits::PAGE_SIZE_MAX;
    |text| {
        let (name_search, name) = filter::name_conditions(text)?;
        CollectionFilter { name_search, name }
    }
}

/// Changes a collection. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateCollection {
    pub collection_id: CollectionId,
    pub name: Option<String>,
    /// Empty: removes the description.
    pub description: Option<String>,
    /// The new tags replace all stored ones.
    pub tag_ids: Option<Vec<TagId>>,
    /// The new values replace all stored ones.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateCollection {
    const DECLARATION: Declaration = SERVICE.change("UpdateCollection");
    type Output = Collection;

    async fn run(self, context: &Context) -> Result<Collection> {
        if let Some(name) = &self.name {
            folio_resources::fields::check_name(NAME, name)?;
        }
        let change = CollectionChange::Update {
            description: self.description.map(|text| check_description(DESCRIPTION, &text)).transpose()?,
            name: self.name,
            tags: self.tag_ids,
            metadata: self.metadata,
        };
        context.update(&self.collection_id, self.etag, change).await
    }
}

delete_operation! {
    /// Deletes a collection. Its members remain.
    DeleteCollection { collection_id: CollectionId } of Collection
}

/// Lists the members of a collection. Filter: `name:` a part of the name, `name=` the name. Error: `NOT_FOUND`.
#[derive(Debug, Clone, Serialize)]
pub struct ListCollectionDocuments {
    pub collection_id: CollectionId,
    pub list: ListRequest,
}

impl Operation for ListCollectionDocuments {
    const DECLARATION: Declaration = SERVICE.read("ListCollectionDocuments");
    type Output = ListPage<Document>;

    async fn run(self, context: &Context) -> Result<ListPage<Document>> {
        let (name_search, name) = filter::name_conditions(&self.list.filter)?;
        let collection = context.find::<Collection>(&self.collection_id).await?;
        let filter = DocumentFilter { name_search, name, ..collection.rule.filter() };
        let org = &context.principal().org;
        // A page of another rule would repeat or omit members.
        let scope = ["members", &collection.id.to_string(), &collection.version.to_string(), org.as_str()];
        let keys = SortKeys::CreateTimeAndName;
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let (store, filter) = (&context.stores().of::<Document>(), &filter);
        listing.fetch(|page| async move { store.list(org, filter, &page).await }).await
    }
}
