//! Serves `CollectionService`.

use folio_operations::collections::{
    CreateCollection, DeleteCollection, GetCollection, ListCollectionDocuments, ListCollections, UpdateCollection,
};
use folio_proto::{fields, v1};
use v1::collection_service_server::CollectionService;

use super::Api;
use super::handler::{change, delete, get, list};

#[tonic::async_trait]
impl CollectionService for Api {
    change!(create_collection, CreateCollectionRequest, CreateCollectionResponse { collection }, |request| {
        let collection = fields::required("collection", request.collection)?;
        CreateCollection {
            tag_ids: fields::tags("collection.tag_ids", &collection.tag_ids)?,
            name: collection.name,
            description: collection.description,
            metadata: collection.metadata,
        }
    });

    get!(get_collection, GetCollectionRequest, GetCollection { collection_id }, GetCollectionResponse { collection });

    list!(list_collections, ListCollectionsRequest, ListCollections {}, ListCollectionsResponse { collections });

    change!(update_collection, UpdateCollectionRequest, UpdateCollectionResponse { collection }, |request| {
        let collection = fields::required("collection", request.collection)?;
        let collection_id = fields::id("collection.collection_id", &collection.collection_id)?;
        let set = [
            ("name", !collection.name.is_empty()),
            ("description", !collection.description.is_empty()),
            ("tag_ids", !collection.tag_ids.is_empty()),
            ("metadata", !collection.metadata.is_empty()),
        ];
        let mask = fields::mask(request.update_mask.as_ref(), &set)?;
        let tag_ids = mask.take("tag_ids", collection.tag_ids);
        UpdateCollection {
            collection_id,
            etag: fields::etag("collection.etag", &collection.etag)?,
            name: mask.take("name", collection.name),
            description: mask.take("description", collection.description),
            tag_ids: tag_ids.map(|ids| fields::tags("collection.tag_ids", &ids)).transpose()?,
            metadata: mask.take("metadata", collection.metadata),
        }
    });

    delete!(delete_collection, DeleteCollectionRequest, DeleteCollection { collection_id }, DeleteCollectionResponse);

    list!(
        list_collection_documents,
        ListCollectionDocumentsRequest,
        ListCollectionDocuments { collection_id },
        ListCollectionDocumentsResponse { documents }
    );
}
