//! Collections on a command line.

use anyhow::Result;
use folio_proto::v1;
use folio_resources::CollectionId;

use crate::client::{Client, answer};
use crate::names;

/// Returns the ids of collections that are named by id or name.
pub(super) async fn ids(client: &Client, collections: &[String]) -> Result<Vec<String>> {
    let mut ids = Vec::with_capacity(collections.len());
    for collection in collections {
        ids.push(id(client, collection).await?);
    }
    Ok(ids)
}

async fn id(client: &Client, what: &str) -> Result<String> {
    if what.parse::<CollectionId>().is_ok() {
        return Ok(what.to_owned());
    }
    let request =
        v1::ListCollectionsRequest { page_size: names::CANDIDATES, filter: names::filter(what), ..Default::default() };
    let found = answer(client.collections().list_collections(request)).await?.collections;
    Ok(names::choose("collection", what, found)?.collection_id)
}
